// What a stock streamr-client 1.0.2 (the legacy JSON API) does with a node: `node scenarios.js NAME HOST:PORT`.
// The last line on stdout is the result as JSON; the test that runs this judges it.
'use strict'

const StreamrClient = require('streamr-client')
const Web3 = require('web3')

const [, , scenario, address] = process.argv
const KEYS = { alice: '66', bob: '77' }

const addressOf = (name) => new Web3().eth.accounts.privateKeyToAccount('0x' + KEYS[name].repeat(32)).address

function connect(name) {
    const client = new StreamrClient({
        auth: { privateKey: '0x' + KEYS[name].repeat(32) },
        url: `ws://${address}/api/v1/ws`,
        restUrl: `http://${address}/api/v1`,
    })
    client.on('error', (error) => console.error(name, error))
    return client
}

// This client cannot grant permissions by itself.
async function grant(client, stream, operation, name) {
    const response = await fetch(`http://${address}/api/v1/streams/${encodeURIComponent(stream.id)}/permissions`, {
        method: 'POST',
        headers: { Authorization: `Bearer ${await client.session.getSessionToken()}` },
        body: JSON.stringify({ operation, user: addressOf(name) }),
    })
    if (!response.ok) {
        throw new Error(await response.text())
    }
}

const once = (emitter, event) => new Promise((resolve) => emitter.once(event, resolve))

function collect(client, options, count) {
    return new Promise((resolve) => {
        const messages = []
        const subscription = client.subscribe(options, (content, message) => {
            messages.push({ n: content.n, offset: message.offset })
            if (messages.length === count) {
                resolve(messages)
            }
        })
        subscription.once('subscribed', () => client.emit('collecting'))
    })
}

const numbers = (messages) => messages.map(({ n }) => n)

const scenarios = {
    async plain() {
        const [alice, bob] = [connect('alice'), connect('bob')]
        const stream = await alice.createStream({ name: 'plain1' })
        await grant(alice, stream, 'stream_get', 'bob')
        await grant(alice, stream, 'stream_subscribe', 'bob')
        const collecting = once(bob, 'collecting')
        const received = collect(bob, { stream: stream.id }, 5)
        await collecting
        const start = Date.now()
        for (let n = 1; n <= 5; n += 1) {
            await alice.publish(stream.id, { n }, start + n)
        }
        const live = await received
        const [, { offset: second }, , { offset: fourth }] = live
        const readAgain = async (options, count) => numbers(await collect(connect('bob'), { stream: stream.id, ...options }, count))
        return {
            live: numbers(live),
            all: await readAgain({ resend_all: true }, 5),
            last: await readAgain({ resend_last: 3 }, 3),
            from: await readAgain({ resend_from: second }, 4),
            range: await readAgain({ resend_from: second, resend_to: fourth }, 3),
        }
    },
}

scenarios[scenario]().then(
    (result) => {
        console.log(JSON.stringify(result))
        process.exit(0)
    },
    (error) => {
        console.error(error)
        process.exit(1)
    },
)
