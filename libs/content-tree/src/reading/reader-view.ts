/**
 * One reader's view of an account: which contents are open to it, what it may see, and how an item
 * looks to it. All access uses the one rule of @holdfast/access; this file only supplies the
 * attributes.
 */
import {
  accessTo,
  type FolderAccess,
  isOver,
  isShown,
  type PasswordVerdict,
  type Reader,
} from '@holdfast/access'
import { hex, isPasswordDigest } from '@holdfast/kernel'
import type { DirectLink, Item, PasswordVerifier } from '@holdfast/wire'
import type { Account } from '../account/account.ts'
import { directLinkBytesPerAnswerMax } from '../bounds.ts'
import type { DecideContext } from '../contract.ts'
import { none } from '../tree/columns.ts'
import { noteNames } from '../tree/notes.ts'
import type { Tree } from '../tree/tree.ts'
import { linksBytes } from './json-bytes.ts'

/**
 * The one password of a request, tried on every protected folder met. Unknown verdicts are
 * requested; the runtime makes a bounded number of slow checks per request and reports the rest as
 * wrong.
 */
export class PasswordTries {
  /** Checks that must be made before the request can be decided. */
  readonly open: { verifier: PasswordVerifier; password: string }[] = []
  readonly #context: DecideContext
  readonly #password: string | undefined
  readonly #verdicts = new Map<PasswordVerifier, PasswordVerdict>()
  readonly #accepted = new Set<string>()

  constructor(context: DecideContext, password: string | undefined) {
    this.#context = context
    this.#password = password?.toLowerCase() || undefined
  }

  try(verifier: PasswordVerifier): PasswordVerdict {
    const known = this.#verdicts.get(verifier)
    if (known !== undefined) return known
    const verdict = this.#check(verifier)
    this.#verdicts.set(verifier, verdict)
    return verdict
  }

  /** Counts the password with this salt as given: a capability says that it was. */
  accept(salt: Uint8Array): void {
    this.#accepted.add(hex(salt))
  }

  /** The salts of the passwords that the request's own satisfied. */
  satisfied(): Buffer[] {
    const salts = [...this.#verdicts].filter(([, verdict]) => verdict === 'right').map(([{ salt }]) => salt)
    return salts.map((salt) => Buffer.from(salt))
  }

  /** The request's password is wrong for a folder that was met. */
  get isWrong(): boolean {
    return [...this.#verdicts.values()].includes('wrong')
  }

  get hasPassword(): boolean {
    return this.#password !== undefined
  }

  /** Known verdicts, without any check. */
  recall(verifier: PasswordVerifier): PasswordVerdict {
    return this.#verdicts.get(verifier) ?? 'missing'
  }

  #check(verifier: PasswordVerifier): PasswordVerdict {
    if (this.#accepted.size > 0 && this.#accepted.has(hex(verifier.salt))) return 'right'
    if (this.#password === undefined) return 'missing'
    // Readers send a SHA-256 in hex; anything else is wrong without a slow check.
    if (!isPasswordDigest(this.#password)) return 'wrong'
    const right = this.#context.verdict(verifier, this.#password)
    if (right !== undefined) return right ? 'right' : 'wrong'
    this.open.push({ verifier, password: this.#password })
    return 'unknown'
  }
}

export class ReaderView {
  readonly account: Account
  readonly tree: Tree
  readonly isOwner: boolean
  readonly now: number
  readonly tries: PasswordTries
  readonly #reader: Reader<PasswordVerifier>
  #linkBytesLeft = directLinkBytesPerAnswerMax
  /** The last one named. */
  #parent: { row: number; id: string } | undefined

  /** @param now Unix seconds. */
  constructor(account: Account, viewer: { isOwner: boolean; now: number; tries: PasswordTries }) {
    this.account = account
    this.tree = account.tree
    this.isOwner = viewer.isOwner
    this.now = viewer.now
    this.tries = viewer.tries
    this.#reader = {
      isOwner: viewer.isOwner,
      now: viewer.now,
      tryPassword: (verifier) => this.tries.try(verifier),
    }
  }

  /** May this reader read the folder? */
  accessTo(folder: number): FolderAccess {
    const { tree } = this
    return accessTo(
      {
        isPublic: tree.isPublic(folder),
        recycled: tree.inBin(folder),
        ends: tree.endsOf(folder),
        password: tree.passwordOf(folder),
      },
      this.#reader,
    )
  }

  /**
   * Access to a child of a folder that is open to this reader: nothing above it can close it.
   */
  accessToChild(folder: number): FolderAccess {
    const { tree } = this
    if (this.isOwner) return 'open'
    return accessTo(
      {
        isPublic: tree.isPublic(folder),
        recycled: false,
        ends: tree.expiryOf(folder),
        password: tree.passwordOf(folder),
      },
      this.#reader,
    )
  }

  /** A file follows its folder. */
  accessToContent(row: number): FolderAccess {
    return this.accessTo(this.tree.isFolder(row) ? row : this.tree.parentOf(row))
  }

  /** How many direct children of an open folder this reader may see. */
  childrenCount(folder: number): number {
    const { tree } = this
    const all = tree.childCount(folder)
    if (this.isOwner) return all
    const { isPrivate, ending } = tree.hiddenCandidates(folder)
    let over = 0
    if (ending > 0)
      for (const child of tree.folderRows(folder))
        if (tree.isPublic(child) && isOver(tree.expiryOf(child), this.now)) over++
    return all - isPrivate - over
  }

  /** Whether this reader may see every child of an open folder. */
  seesAll(folder: number): boolean {
    const { isPrivate, ending } = this.tree.hiddenCandidates(folder)
    return this.isOwner || (isPrivate === 0 && ending === 0)
  }

  /** Whether tags and other details of a child are shown, or only its name. */
  isOpen(child: number): boolean {
    return this.isOwner || !this.tree.isFolder(child) || this.accessToChild(child) === 'open'
  }

  isShown(child: number): boolean {
    return this.isOwner || !this.tree.isFolder(child) || isShown(this.accessToChild(child))
  }

  /** A child of an open folder, as it is listed. */
  child(row: number): Item {
    if (!this.tree.isFolder(row)) return this.file(row, true)
    const access = this.accessToChild(row)
    return access === 'open' ? this.folder(row, true) : this.#locked(row)
  }

  /** Content that is open to this reader. */
  item(row: number): Item {
    const parent = this.tree.parentOf(row)
    if (this.tree.isFolder(row)) return this.folder(row, parent !== none && this.#mayReadAbove(parent))
    const item = this.file(row, true)
    const verifier = this.isOwner ? undefined : this.tree.passwordOf(parent)
    return verifier === undefined ? item : { ...item, passwordVersion: verifier.salt }
  }

  file(row: number, showParent: boolean): Item {
    const { tree } = this
    const item = this.#common(row, showParent)
    item.size = tree.sizeOf(row)
    item.mimetype = tree.contents.mimetypes[row] as string
    item.downloads = tree.contents.downloads[row] as number
    item.blob = tree.blobs.blob(tree.blobRowOf(row))
    return item
  }

  folder(row: number, showParent: boolean): Item {
    const { tree } = this
    const item = this.#common(row, showParent)
    const verifier = tree.passwordOf(row)
    item.isFolder = true
    item.isPublic = tree.isPublic(row)
    item.isRoot = row === tree.root
    item.password = verifier !== undefined
    item.expiry = tree.expiryOf(row)
    if (this.isOwner && item.expiry !== undefined) item.deleteAfterExpiry = tree.deletesAfterExpiry(row)
    if (!this.isOwner && verifier !== undefined) item.passwordVersion = verifier.salt
    item.childrenCount = this.childrenCount(row)
    return item
  }

  #common(row: number, showParent: boolean): Item {
    const { tree } = this
    const { contents } = tree
    const parent = tree.parentOf(row)
    const item = blankItem()
    item.id = tree.idOf(row)
    item.name = contents.names[row] as string
    if (showParent && parent !== none) item.parentFolder = this.#idOfParent(parent)
    item.code = tree.codeOf(row)
    item.createTime = contents.created[row] as number
    item.modTime = contents.modified[row] as number
    for (const name of noteNames) item[name] = tree.sparse.notes[name].get(row)
    item.isOwner = this.isOwner
    if (this.isOwner) item.recycledTime = tree.sparse.recycled.get(row)?.time
    item.directLinks = this.#linksOf(row)
    return item
  }

  /** A page has one parent: its id is made once. */
  #idOfParent(parent: number): string {
    if (this.#parent?.row !== parent) this.#parent = { row: parent, id: this.tree.idOf(parent) }
    return this.#parent.id
  }

  /** The owner's, as long as one answer has room for them. */
  #linksOf(row: number): DirectLink[] {
    const links = this.isOwner ? this.tree.sparse.directLinks.get(row) : undefined
    if (links === undefined) return []
    const bytes = linksBytes(links, this.tree.contents.names[row] as string)
    if (bytes > this.#linkBytesLeft) return []
    this.#linkBytesLeft -= bytes
    return links
  }

  /**
   * A locked item. It does not depend on the password that was sent, which may have been meant for
   * another folder of the listing.
   */
  #locked(row: number): Item {
    return {
      ...blankItem(),
      id: this.tree.idOf(row),
      isFolder: true,
      name: this.tree.contents.names[row] as string,
      code: this.tree.codeOf(row),
      canAccess: false,
      password: true,
      passwordStatus: 'passwordRequired',
    }
  }

  /** Requests no slow check only to name a parent. */
  #mayReadAbove(folder: number): boolean {
    const { tree } = this
    const details = {
      isPublic: tree.isPublic(folder),
      recycled: tree.inBin(folder),
      ends: tree.endsOf(folder),
      password: tree.passwordOf(folder),
    }
    const reader = {
      ...this.#reader,
      tryPassword: (verifier: PasswordVerifier) => this.tries.recall(verifier),
    }
    return accessTo(details, reader) === 'open'
  }
}

const noBytes = Buffer.alloc(0)

/** An open item without details yet. */
export function blankItem(): Item {
  return {
    id: '',
    isFolder: false,
    name: '',
    parentFolder: undefined,
    code: undefined,
    createTime: 0,
    modTime: 0,
    tags: undefined,
    isOwner: false,
    canAccess: true,
    isPublic: false,
    isRoot: false,
    description: undefined,
    password: false,
    passwordStatus: undefined,
    expiry: undefined,
    deleteAfterExpiry: undefined,
    childrenCount: 0,
    children: [],
    hasChildren: false,
    passwordVersion: noBytes,
    size: 0,
    mimetype: '',
    downloads: 0,
    blob: undefined,
    parentFolderCode: undefined,
    recycledTime: undefined,
    idleExpiry: undefined,
    directLinks: [],
  }
}
