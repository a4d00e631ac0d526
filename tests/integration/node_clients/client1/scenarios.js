// What a stock streamr-client 1.0.2 (the legacy JSON API) does with a node: `node scenarios.js NAME HOST:PORT`.
// The last line on stdout is the result as JSON; the test that runs this judges it.
'use strict'

const StreamrClient = require('streamr-client')
const Web3 = require('web3')

const [, , scenario, address, ...more] = process.argv
const KEYS = { alice: '66', bob: '77' }

const addressOf = (name) => new Web3().eth.accounts.privateKeyToAccount('0x' + KEYS[name].repeat(32)).address

const DEFAULT_QUERY = new URL(new StreamrClient({ autoConnect: false }).options.url).search

function connect(name, query = '') {
    const client = new StreamrClient({
        auth: { privateKey: '0x' + KEYS[name].repeat(32) },
        url: `ws://${address}/api/v1/ws${query}`,
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
            messages.push({ content, n: content.n, offset: message.offset, isSigned: message.signatureType === 1 })
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

    // On a stream that demands signatures, with each query that a client of this release may have.
    async signed() {
        const alice = connect('alice')
        const stream = await alice.createStream({ name: 'signed1', requireSignedData: true })
        await grant(alice, stream, 'stream_get', 'bob')
        await grant(alice, stream, 'stream_subscribe', 'bob')
        const queries = ['', DEFAULT_QUERY, '?messageLayerVersion=29']
        const clients = queries.map((query) => connect('bob', query))
        const ready = clients.map((client) => once(client, 'collecting'))
        const received = clients.map((client) => collect(client, { stream: stream.id }, 3))
        await Promise.all(ready)
        for (let n = 1; n <= 3; n += 1) {
            await alice.publish(stream.id, { n })
        }
        const messages = await Promise.all(received)
        return { query: DEFAULT_QUERY, live: messages.map(numbers), signed: messages.flat().every(({ isSigned }) => isSigned) }
    },

    // The readings in messages of a device, by a decoder, a file: live, and of what is stored.
    async packs() {
        const [id, count, decoder] = more
        const { readings } = require(decoder)
        const decode = (messages) => messages.map(({ content }) => readings(content))
        const live = await collect(connect('bob'), { stream: id }, Number(count))
        const history = await collect(connect('bob'), { stream: id, resend_last: Number(count) }, Number(count))
        return { live: decode(live), history: decode(history) }
    },

    // Messages of one millisecond, live and again.
    async sameTime() {
        const alice = connect('alice', DEFAULT_QUERY)
        const stream = await alice.createStream({ name: 'sameTime1' })
        const collecting = once(alice, 'collecting')
        const received = collect(alice, { stream: stream.id }, 6)
        await collecting
        const now = Date.now()
        for (const [n, time] of [now, now, now, now - 5, now, now + 1].entries()) {
            await alice.publish(stream.id, { n }, time)
        }
        const live = await received
        const again = await collect(connect('alice'), { stream: stream.id, resend_all: true }, 6)
        return { live: numbers(live), again: numbers(again) }
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
