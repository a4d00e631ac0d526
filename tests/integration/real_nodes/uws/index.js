// The part of uWebSockets.js that streamr-network uses, on top of ws: the registry does not have the original.
'use strict'

const http = require('http')
const WebSocket = require('ws')

class Socket {
    constructor(ws, data) { this.raw = ws; Object.assign(this, data) }
    send(message, callback) { this.raw.send(message, callback); return true }
    ping() { this.raw.ping() }
    end(code, reason) { this.raw.close(code, reason) }
    close(code, reason) { if (code) { this.raw.close(code, reason) } else { this.raw.terminate() } }
    getBufferedAmount() { return this.raw.bufferedAmount }
}

const bytes = (data) => new Uint8Array(Buffer.from(data || '')).buffer

const App = () => {
    const routes = new Map()
    const wss = new WebSocket.Server({ noServer: true, maxPayload: 1024 * 1024 })
    wss.on('headers', (headers, request) => headers.push(...(request.moreHeaders || [])))
    const server = http.createServer((request, response) => { response.statusCode = 404; response.end() })
    server.on('upgrade', (request, socket, head) => {
        const url = new URL(request.url, 'http://x')
        const behaviour = routes.get(url.pathname)
        if (!behaviour) { socket.destroy(); return }
        request.moreHeaders = []
        const response = {
            writeStatus() { return response },
            writeHeader(name, value) { request.moreHeaders.push(`${name}: ${value}`); return response },
            upgrade(data) {
                wss.handleUpgrade(request, socket, head, (ws) => {
                    const wrapped = new Socket(ws, data)
                    ws.on('message', (message) => behaviour.message(wrapped, bytes(message), false))
                    ws.on('pong', () => behaviour.pong(wrapped))
                    ws.on('close', (code, reason) => behaviour.close(wrapped, code, bytes(reason)))
                    ws.on('error', () => ws.terminate())
                    behaviour.open(wrapped)
                })
            }
        }
        behaviour.upgrade(response, {
            getQuery: (name) => url.searchParams.get(name) || '',
            getHeader: (name) => request.headers[name] || ''
        }, {})
    })
    const app = {
        ws(path, behaviour) { routes.set(path, behaviour); return app },
        get() { return app },
        listen(...args) {
            const callback = args.pop()
            server.listen(args.pop(), args.pop(), () => callback(server))
        }
    }
    return app
}

module.exports = { App, SSLApp: App, us_listen_socket_close: (server) => server.close() }
