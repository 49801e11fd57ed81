/**
 * Every secret of an installation, derived from one master secret that is made at the first start
 * and never rotated.
 */
import { hkdfSync } from 'node:crypto'
import { IdCodec } from '../ids/ids.ts'
import { ShareCodes } from '../ids/share-codes.ts'
import { Invitations } from './invitations.ts'
import { MailProofs } from './mail-proofs.ts'
import { TokenCodec } from './tokens.ts'

export class Keyring {
  readonly #master: Uint8Array
  readonly ids: IdCodec
  readonly codes: ShareCodes
  readonly legacyCodes: ShareCodes
  readonly tokens: TokenCodec
  readonly invitations: Invitations
  readonly mailProofs: MailProofs

  /** @param master 32 random bytes; part of every backup. */
  constructor(master: Uint8Array) {
    if (master.length !== 32) throw new RangeError(`the master secret has ${master.length} bytes, not 32`)
    this.#master = master
    this.ids = new IdCodec({ contentKey: this.derive('content-id'), accountKey: this.derive('account-id') })
    this.codes = new ShareCodes(this.derive('share-code/8'), { length: 8 })
    this.legacyCodes = new ShareCodes(this.derive('share-code/6'), { length: 6 })
    this.invitations = new Invitations(this.derive('invitation'))
    this.mailProofs = new MailProofs(this.derive('mail-proof'))
    this.tokens = new TokenCodec((keyId) => this.derive(`token/${keyId}`))
  }

  /** 32 bytes for one purpose; the same purpose always gives the same bytes. */
  derive(purpose: string): Uint8Array {
    return new Uint8Array(hkdfSync('sha256', this.#master, 'holdfast', purpose, 32))
  }
}
