// What a stock streamr-client 5.6.0 does with a node:
// `node -r ../addon_shims.js scenarios.js NAME HOST:PORT [ARGUMENT…]`.
// The last line on stdout is the result as JSON; the test that runs this judges it.
'use strict'

const readline = require('readline')

const { StreamrClient } = require('streamr-client')

const [, , scenario, address, ...more] = process.argv
const KEYS = { alice: '11', bob: '22', carol: '33' }

function connect(name, options = {}) {
    const client = new StreamrClient({
        auth: { privateKey: '0x' + KEYS[name].repeat(32) },
        url: `ws://${address}/api/v1/ws`,
        restUrl: `http://${address}/api/v1`,
        verifySignatures: 'always',
        publishWithSignature: 'always',
        gapFillTimeout: 300,
        retryResendAfter: 300,
        ...options,
    })
    client.on('error', (error) => console.error(name, error))
    return client
}

// With its full id: releases before 5.4 do not complete one that begins with a slash.
async function createOwnStream(client, name, options) {
    return client.createStream({ id: `${(await client.getAddress()).toLowerCase()}/${name}`, ...options })
}

// Releases before 5.4 have no rekey.
async function rekey(client, stream) {
    await (client.rekey || client.rotateGroupKey).call(client, stream.id)
}

async function share(stream, client, ...operations) {
    for (const operation of operations) {
        await stream.grantPermission(operation, await client.getAddress())
    }
}

async function collect(subscription, count) {
    const messages = []
    if (count === 0) {
        return messages
    }
    for await (const message of subscription) {
        messages.push(message)
        if (messages.length === count) {
            break
        }
    }
    return messages
}

const opened = (message) => ({ content: message.getSerializedContent(), groupKeyId: message.groupKeyId })

const numbers = (messages) => messages.map((message) => message.getParsedContent().n)

async function resend(client, stream, options) {
    const messages = []
    for await (const message of await client.resend({ stream: stream.id, resend: options })) {
        messages.push(message)
    }
    return messages
}

async function publishNumbers(client, stream, from, to) {
    for (let n = from; n <= to; n += 1) {
        await client.publish(stream, { n })
    }
}

const scenarios = {
    async login() {
        const alice = connect('alice')
        const token = await alice.session.getSessionToken()
        const me = await alice.getUserInfo()
        await alice.logout()
        return { hasToken: token.length > 20, me: me.username, address: (await alice.getAddress()).toLowerCase() }
    },

    async plain() {
        const [alice, bob] = [connect('alice'), connect('bob')]
        const stream = await createOwnStream(alice, 'plain', { name: 'plain', requireSignedData: true })
        const again = await alice.getOrCreateStream({ id: stream.id })
        const before = await bob.getStream(stream.id).catch((error) => error.response.status)
        await share(stream, bob, 'stream_get', 'stream_subscribe')
        const received = collect(await bob.subscribe(stream.id), 5)
        await publishNumbers(alice, stream, 1, 5)
        const live = await received
        const [second, fourth] = [live[1], live[3]].map((message) => ({
            timestamp: message.getTimestamp(),
            sequenceNumber: message.getSequenceNumber(),
        }))
        const publisherId = live[1].getPublisherId()
        const msgChainId = live[1].getMsgChainId()
        const lastByRest = await bob.getStreamLast({ stream: stream.id, count: 2 })
        return {
            before,
            sameStream: again.id === stream.id,
            live: numbers(live),
            signed: live.every((message) => message.signatureType === 2 && message.signature),
            last: numbers(await resend(bob, stream, { last: 3 })),
            from: numbers(await resend(bob, stream, { from: second, publisherId })),
            range: numbers(await resend(bob, stream, { from: second, to: fourth, publisherId, msgChainId })),
            lastByRest: lastByRest.map((message) => message.content.n),
            permissions: (await stream.getPermissions()).length,
        }
    },

    async refused() {
        const [alice, carol] = [connect('alice'), connect('carol')]
        const stream = await createOwnStream(alice, 'refused', { requireSignedData: true })
        await stream.grantPermission('stream_get', await carol.getAddress())
        const subscribing = await carol.subscribe(stream.id).then(() => 'subscribed', (error) => error.message)
        const checked = await alice.isStreamPublisher(stream.id, await carol.getAddress())
        return { subscribing, checked }
    },

    async encrypted() {
        const [alice, bob] = [connect('alice'), connect('bob')]
        const stream = await createOwnStream(alice, 'encrypted', { requireSignedData: true, requireEncryptedData: true })
        await share(stream, bob, 'stream_get', 'stream_subscribe')
        const subscription = await bob.subscribe(stream.id)
        const received = collect(subscription, 6)
        await alice.rotateGroupKey(stream.id)
        await publishNumbers(alice, stream, 1, 2)
        await alice.rotateGroupKey(stream.id)
        await publishNumbers(alice, stream, 3, 4)
        await rekey(alice, stream)
        await publishNumbers(alice, stream, 5, 6)
        const live = await received
        const carol = connect('carol')
        await share(stream, carol, 'stream_get', 'stream_subscribe')
        const history = await resend(carol, stream, { last: 6 })
        return {
            live: numbers(live),
            groupKeys: new Set(live.map((message) => message.groupKeyId)).size,
            history: numbers(history),
        }
    },

    async gap() {
        const [alice, bob] = [connect('alice'), connect('bob')]
        const stream = await createOwnStream(alice, 'gap', { requireSignedData: true })
        await share(stream, bob, 'stream_get', 'stream_subscribe')
        const subscription = await bob.subscribe(stream.id)
        const lost = []
        const { emit } = bob.connection
        bob.connection.emit = function emitAllButSome(type, message, ...rest) {
            const n = type === 0 ? message.streamMessage.getParsedContent().n : null
            if ((n === 2 || n === 3) && !lost.includes(n)) {
                lost.push(n)
                return true
            }
            return emit.call(this, type, message, ...rest)
        }
        const received = collect(subscription, 5)
        await publishNumbers(alice, stream, 1, 5)
        return { lost, live: numbers(await received) }
    },

    // Of a stream that a device publishes: bob reads along, and carol, who has no keys yet, what is stored.
    async reading() {
        const [id, count] = more
        const live = await collect(await connect('bob').subscribe(id), Number(count))
        const history = await resend(connect('carol'), { id }, { last: Number(count) })
        return { live: live.map(opened), history: history.map(opened) }
    },

    // The readings in messages of a device, by a decoder, a file: live, and of what is stored.
    async packs() {
        const [id, count, decoder] = more
        const { readings } = require(decoder)
        const decode = (messages) => messages.map((message) => readings(message.getParsedContent()))
        const live = await collect(await connect('bob').subscribe(id), Number(count))
        const history = await resend(connect('carol'), { id }, { last: Number(count) })
        return { live: decode(live), history: decode(history) }
    },

    // The same, by one to whom the device gives no key.
    async lockedOut() {
        const [id] = more
        const subscription = await connect('alice').subscribe(id)
        const refusal = new Promise((resolve) => subscription.once('error', resolve))
        collect(subscription, 1).catch(() => {})
        return { refusal: (await refusal).message }
    },

    // Says which stream it is once there is something to read; a line on stdin asks for more, the next one ends it.
    async publishing() {
        const [reader] = more
        const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()
        const alice = connect('alice')
        const stream = await createOwnStream(alice, 'publishing', { requireSignedData: true, requireEncryptedData: true })
        await stream.grantPermission('stream_get', reader)
        await stream.grantPermission('stream_subscribe', reader)
        await alice.rotateGroupKey(stream.id)
        await publishNumbers(alice, stream, 1, 2)
        await alice.rotateGroupKey(stream.id)
        await publishNumbers(alice, stream, 3, 4)
        console.log(JSON.stringify({ stream: stream.id }))
        await lines.next()
        await alice.rotateGroupKey(stream.id)
        await publishNumbers(alice, stream, 5, 6)
        await rekey(alice, stream)
        await publishNumbers(alice, stream, 7, 8)
        await lines.next()
        return { published: 8 }
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
