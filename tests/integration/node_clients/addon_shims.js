// Stands in for the native add-ons of streamr-client 5.x that have no build for current Node.js: loaded with `node -r`.
// The client itself is untouched. Key pairs come from Node's own webcrypto; group keys are kept in memory, by file name.
'use strict'

const Module = require('module')
const { webcrypto } = require('crypto')
const fs = require('fs')

class Crypto {
    get subtle() {
        return webcrypto.subtle
    }

    getRandomValues(array) {
        return webcrypto.getRandomValues(array)
    }
}

const tables = new Map() // file name → Map of group key id → { groupKey, streamId }

class KeyTable {
    constructor(filename) {
        fs.writeFileSync(filename, '')
        tables.set(filename, tables.get(filename) || new Map())
        this.rows = tables.get(filename)
    }

    async configure() {}

    async migrate() {}

    async exec() {}

    async close() {}

    async get(sql, ...values) {
        const rows = [...this.rows].filter(([id, row]) => row.streamId === values.at(-1) && (values.length < 2 || id === values[0]))
        return sql.startsWith('SELECT COUNT(*)') ? { 'COUNT(*)': rows.length } : rows.length ? rows[0][1] : undefined
    }

    async run(sql, ...values) {
        const before = this.rows.size
        if (sql.startsWith('INSERT')) {
            const [{ $id, $groupKey, $streamId }] = values
            if (!this.rows.has($id)) {
                this.rows.set($id, { groupKey: $groupKey, streamId: $streamId })
            }
        } else if (sql.startsWith('DELETE')) {
            for (const [id, row] of [...this.rows]) {
                if (row.streamId === values.at(-1) && (values.length < 2 || id === values[0])) {
                    this.rows.delete(id)
                }
            }
        } else if (!sql.startsWith('PRAGMA')) {
            throw new Error(`unexpected statement: ${sql}`)
        }
        return { changes: Math.abs(this.rows.size - before) }
    }
}

const SHIMS = {
    'node-webcrypto-ossl': { Crypto },
    sqlite3: { Database: class {} },
    sqlite: { open: async ({ filename }) => new KeyTable(filename) },
}

const load = Module._load
Module._load = function loadWithShims(request, ...rest) {
    return SHIMS[request] || load.call(this, request, ...rest)
}
