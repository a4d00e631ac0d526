// A real node or tracker, driven by lines of JSON. `node driver.js tracker`, `node driver.js node TRACKER_URL STREAM_ID`
// In:  {"publish": text of a stream message}, {"resendLast": count}
// Out: {"port": number}, {"message": text of a stream message}, {"resent": [texts of stream messages]}
'use strict'

const net = require('net')
const readline = require('readline')
const { startNetworkNode, startTracker, Protocol } = require('streamr-network')
const { version } = require('streamr-network/package.json')

const [, , role, trackerUrl, streamId] = process.argv
const isOld = Number(version.split('.')[0]) < 20
const host = '127.0.0.1'
const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`)

const freePort = () => new Promise((resolve) => {
    const probe = net.createServer()
    probe.listen(0, host, () => {
        const { port } = probe.address()
        probe.close(() => resolve(port))
    })
})

const startNode = async (port) => {
    const id = `real-node-${port}`
    if (!isOld) {
        return startNetworkNode({ host, port, id, trackers: [trackerUrl] })
    }
    const node = await startNetworkNode(host, port, id)
    node.addBootstrapTracker(trackerUrl)
    return node
}

const resendLast = (node, count) => {
    const resent = []
    const stream = node.requestResendLast(streamId, 0, 'request', count)
    stream.on('data', (unicast) => resent.push(unicast.streamMessage.serialize()))
    stream.on('end', () => say({ resent }))
}

const runNode = async (port) => {
    const node = await startNode(port)
    node.addMessageListener((message) => say({ message: message.serialize() }))
    if (node.start) {
        node.start()
    }
    node.subscribe(streamId, 0)
    readline.createInterface({ input: process.stdin }).on('line', (line) => {
        const { publish, resendLast: count } = JSON.parse(line)
        if (publish !== undefined) {
            node.publish(Protocol.MessageLayer.StreamMessage.deserialize(publish))
        } else {
            resendLast(node, count)
        }
    })
}

freePort().then(async (port) => {
    if (role === 'tracker') {
        await startTracker({ host, port, id: 'real-tracker', attachHttpEndpoints: false })
    } else {
        await runNode(port)
    }
    say({ port })
})
