// What a stock streamr-client 0.x (API keys, no signatures) does with a node:
// `node scenarios.js plain HOST:PORT API-KEY`.
// The last line on stdout is the result as JSON; the test that runs this judges it.
'use strict'

const StreamrClient = require('streamr-client')

const [, , scenario, address, apiKey] = process.argv

function connect() {
    const client = new StreamrClient({
        authKey: apiKey,
        url: `ws://${address}/api/v1/ws`,
        restUrl: `http://${address}/api/v1`,
    })
    client.on('error', (error) => console.error(error))
    return client
}

async function post(path, body) {
    const response = await fetch(`http://${address}/api/v1${path}`, {
        method: 'POST',
        headers: { Authorization: `token ${apiKey}` },
        body: JSON.stringify(body),
    })
    const text = await response.text()
    if (!response.ok) {
        throw new Error(text)
    }
    return text && JSON.parse(text)
}

// 0.9 only subscribes.
async function createStream(client, name) {
    return client.createStream ? client.createStream({ name }) : post('/streams', { name })
}

async function publish(client, stream, content) {
    const data = () => post(`/streams/${encodeURIComponent(stream.id)}/data`, content)
    await (client.produceToStream ? client.produceToStream(stream.id, content) : data())
}

function collect(client, options, count) {
    return new Promise((resolve) => {
        const messages = []
        const subscription = client.subscribe(options, (content, { offset }) => {
            messages.push({ n: content.n, offset })
            if (messages.length === count) {
                resolve([...messages])
            }
        })
        subscription.once('subscribed', () => client.emit('collecting'))
    })
}

const numbers = (messages) => messages.map(({ n }) => n)

const scenarios = {
    async plain() {
        const [alice, bob] = [connect(), connect()]
        const stream = await createStream(alice, 'plain0')
        const collecting = new Promise((resolve) => bob.once('collecting', resolve))
        const received = collect(bob, { stream: stream.id }, 5)
        await collecting
        for (let n = 1; n <= 5; n += 1) {
            await publish(alice, stream, { n })
        }
        const live = await received
        const readAgain = async (options, count) => numbers(await collect(connect(), { stream: stream.id, ...options }, count))
        return {
            live: numbers(live),
            all: await readAgain({ resend_all: true }, 5),
            last: await readAgain({ resend_last: 3 }, 3),
            from: await readAgain({ resend_from: live[1].offset }, 4),
        }
    },
}

scenarios[scenario]().then(
    (result) => {
        process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0))
    },
    (error) => {
        console.error(error)
        process.exit(1)
    },
)
