// The JavaScript reference on the same work, by CPU time. Run by bench_streamr.py in a folder that has the package.
// Arguments: the message as JSON, the private key in hex, the seconds of CPU time to spend on each figure.
const { createRequire } = require('module')
const load = createRequire(process.cwd() + '/')

load('secp256k1/bindings') // fails here rather than fall back to arithmetic in JavaScript
const { MessageID, MessageRef, SigningUtil, StreamMessage } = load('streamr-client-protocol')

const [fields, privateKey, seconds] = [JSON.parse(process.argv[2]), process.argv[3], Number(process.argv[4])]

async function write() {
    const message = new StreamMessage({
        messageId: new MessageID(
            fields.streamId, 0, fields.timestamp, 1, fields.publisherId, fields.msgChainId
        ),
        prevMsgRef: new MessageRef(fields.timestamp, 0),
        content: fields.content,
        signatureType: StreamMessage.SIGNATURE_TYPES.ETH,
    })
    message.signature = await SigningUtil.sign(message.getPayloadToSign(), privateKey)
    return message.serialize()
}

async function read(text) {
    const message = StreamMessage.deserialize(text)
    if (!await SigningUtil.verify(message.getPublisherId(), message.getPayloadToSign(), message.signature)) {
        throw new Error('not verified')
    }
}

async function cpuSecondsPerCall(work) {
    for (let i = 0; i < 500; i++) await work() // let the compiler see it
    const start = process.cpuUsage()
    for (let calls = 1; ; calls++) {
        await work()
        if (calls % 100 === 0) {
            const { user, system } = process.cpuUsage(start)
            if (user + system > seconds * 1e6) return (user + system) / 1e6 / calls
        }
    }
}

async function main() {
    const text = await write()
    const figures = { text, write: await cpuSecondsPerCall(write), read: await cpuSecondsPerCall(() => read(text)) }
    console.log(JSON.stringify(figures))
}

main()
