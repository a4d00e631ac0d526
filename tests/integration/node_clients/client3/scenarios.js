// What a stock streamr-client 2.x, 3.x (control 1, message 31) or 4.x (control 2, message 32) does with a node:
// `node -r ../addon_shims.js scenarios.js NAME HOST:PORT`.
// The last line on stdout is the result as JSON; the test that runs this judges it.
'use strict'

const { computeAddress } = require('ethers').utils
const StreamrClient = require('streamr-client')

const [, , scenario, address, ...more] = process.argv
const KEYS = { alice: '44', bob: '55' }
const ALICE = computeAddress('0x' + KEYS.alice.repeat(32))
const GROUP_KEYS = [1, 2].map((fill) => Buffer.alloc(32, fill))

function connect(name, options = {}) {
    const client = new StreamrClient({
        auth: { privateKey: '0x' + KEYS[name].repeat(32) },
        url: `ws://${address}/api/v1/ws`,
        restUrl: `http://${address}/api/v1`,
        verifySignatures: 'always',
        publishWithSignature: 'always',
        ...options,
    })
    client.on('error', (error) => console.error(name, error))
    return client
}

const once = (emitter, event) => new Promise((resolve) => emitter.once(event, resolve))

function collect(client, options, count) {
    return new Promise((resolve) => {
        const messages = []
        const subscription = client.subscribe(options, (content, message) => {
            messages.push({ content, message })
            client.emit('first')
            if (messages.length === count) {
                resolve([...messages])
            }
        })
        subscription.once('subscribed', () => client.emit('collecting'))
    })
}

async function resend(client, stream, options) {
    const numbers = []
    const subscription = await client.resend({ stream: stream.id, resend: options }, (content) => numbers.push(content.n))
    await Promise.race([once(subscription, 'resent'), once(subscription, 'no_resend')])
    return numbers
}

async function publishNumbers(client, stream, from, to) {
    for (let n = from; n <= to; n += 1) {
        await client.publish(stream.id, { n })
    }
}

async function share(stream, client) {
    const { username } = await client.getUserInfo()
    await stream.grantPermission('stream_get', username)
    await stream.grantPermission('stream_subscribe', username)
}

async function publishEncrypted(keysOfSubscriber, keys) {
    const [alice, bob] = [connect('alice'), connect('bob')]
    const { username } = await alice.getUserInfo()
    const stream = await alice.createStream({ id: `${username}/encrypted3`, name: 'encrypted3', requireSignedData: true, requireEncryptedData: true })
    await share(stream, bob)
    const collecting = once(bob, 'collecting')
    const received = collect(bob, { stream: stream.id, groupKeys: keysOfSubscriber }, 2 * keys.length)
    await collecting
    const first = once(bob, 'first')
    for (const [index, key] of keys.entries()) {
        await alice.publish(stream.id, { n: 2 * index + 1 }, Date.now(), null, key)
        await first // it requests the latest key only, so the key must not change before that
        await alice.publish(stream.id, { n: 2 * index + 2 })
    }
    return { live: (await received).map(({ content }) => content.n) }
}

const scenarios = {
    async plain() {
        const [alice, bob] = [connect('alice'), connect('bob')]
        const { username } = await alice.getUserInfo()
        const stream = await alice.createStream({ id: `${username}/plain3`, name: 'plain3', requireSignedData: true })
        await share(stream, bob)
        const collecting = once(bob, 'collecting')
        const received = collect(bob, { stream: stream.id }, 5)
        await collecting
        await publishNumbers(alice, stream, 1, 5)
        const live = await received
        const [second, fourth] = [live[1], live[3]].map(({ message }) => ({
            timestamp: message.getTimestamp(),
            sequenceNumber: message.getSequenceNumber(),
        }))
        const publisherId = live[1].message.getPublisherId()
        const { msgChainId } = live[1].message.messageId
        return {
            live: live.map(({ content }) => content.n),
            versions: [...new Set(live.map(({ message }) => message.version))].filter((version) => version), // 4.x does not say
            last: await resend(bob, stream, { last: 3 }),
            from: await resend(bob, stream, { from: second, publisherId, msgChainId }),
            range: await resend(bob, stream, { from: second, to: fourth, publisherId, msgChainId }),
        }
    },

    // The first key by key exchange, the second one in a message.
    async encrypted() {
        return publishEncrypted({}, GROUP_KEYS)
    },

    // With a first key that the subscriber has from elsewhere.
    async sharedKey() {
        return publishEncrypted({ [ALICE]: GROUP_KEYS[0] }, GROUP_KEYS)
    },

    // The readings in messages of a device, by a decoder, a file: live, and of what is stored. The key is shared.
    async packs() {
        const [id, count, decoder, publisherId, key] = more
        const { readings } = require(decoder)
        const options = { stream: id, ...(key && { groupKeys: { [publisherId]: Buffer.from(key, 'hex') } }) }
        const decode = (messages) => messages.map(({ content }) => readings(content))
        const live = await collect(connect('bob'), options, Number(count))
        const history = await collect(connect('bob'), { ...options, resend: { last: Number(count) } }, Number(count))
        return { live: decode(live), history: decode(history) }
    },

    async oneSharedKey() {
        return publishEncrypted({ [ALICE]: GROUP_KEYS[0] }, GROUP_KEYS.slice(0, 1))
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
