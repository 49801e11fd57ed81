/**
 * `POST /uploadfile`: bytes are staged as they come; the file is added once the whole form has
 * arrived.
 *
 * Order of an upload: form read → permission → bytes durable → scanned, where the operator wants
 * that → the account journals the file → answer. An upload that ends earlier leaves nothing: the
 * stage is aborted, and a blob that no account refers to is collected.
 */
import { setImmediate as othersTurn } from 'node:timers/promises'
import type { TokenClaim } from '@holdfast/accounts'
import { type BlobInfo, type BlobStage, type BlobStore, pinMsMax, reportsHolders } from '@holdfast/blob-store'
import {
  answerUnread,
  bearerOf,
  cleanUploadName,
  clientAddress,
  httpCodeOf,
  idempotencyKeyOf,
  logFailure,
  networkOf,
  ok,
  type PiecewiseRequest,
  RefusalError,
  refusalOf,
  unavailableRetrySeconds,
} from '@holdfast/http-kit'
import { type AccountId, GrowingBytes, type RegionCode } from '@holdfast/kernel'
import type { AddFile, ContentView } from '@holdfast/wire'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { AccountCalls } from './account-calls.ts'
import type { UploadContext } from './context.ts'
import { fileType } from './file-type.ts'
import { FormScanner, type PartHead } from './form-scanner.ts'
import { guestOf, uploadRequestId } from './idempotency.ts'
import { type RequestBytes, requestBytes, slowestUploadPace } from './request-bytes.ts'
import type { RunningUpload, UploadPlace } from './running-uploads.ts'
import { UploadForm } from './upload-form.ts'
import type { UploadOutcome } from './upload-metrics.ts'

export async function upload(
  context: UploadContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<unknown> {
  const incoming = new IncomingUpload(context, request, reply)
  let outcome: UploadOutcome = 'stored'
  try {
    return ok(await incoming.receive())
  } catch (error) {
    // A failure caused by the cut-off is reported as the cut-off.
    const reason = incoming.cutOffBy ?? error
    outcome = outcomeOf(reason, request)
    return answerEarly(request, reply, reason, incoming.isCostly)
  } finally {
    context.uploadMetrics.ended(outcome, incoming.bytes)
    incoming.leave()
    if (incoming.isStaged) await incoming.discard()
  }
}

function outcomeOf(error: unknown, request: FastifyRequest): UploadOutcome {
  if (!request.raw.complete && request.raw.destroyed) return 'aborted'
  return error instanceof RefusalError || httpCodeOf(refusalOf(error).status) < 500 ? 'refused' : 'failed'
}

/**
 * Bytes of a file that wait for the rest of it outside a stage: more than most forms of slow
 * clients ever send.
 */
const smallBytesMax = 16 * 1024

/**
 * Smaller pieces of a file gather before they go to the stage: a store may keep an object for each.
 */
const smallPieceBytes = 1024

/** Maximum size of a form without its largest file: heads of its parts and other fields. */
const aroundFileBytesMax = 1024 * 1024
/** Bytes of a file that are read because a token may follow it, where guests may not upload. */
const beforeTokenBytesMax = 8 * 1024 * 1024

interface IncomingFile {
  name: string
  type: string
  /** Undefined until more bytes arrived than may wait outside a stage, or the file has ended. */
  stage: BlobStage | undefined
}

/**
 * @throws the error itself when the whole body has arrived: the host then answers it like any other
 *   error. When the client is gone, a refusal that is not sent.
 *
 * @param isCostly reading the rest costs more than an answer that may be lost
 */
function answerEarly(
  request: FastifyRequest,
  reply: FastifyReply,
  error: unknown,
  isCostly: boolean,
): FastifyReply {
  if (request.raw.complete) {
    request.raw.socket.resume()
    throw error
  }
  if (request.raw.destroyed) throw new RefusalError('error-body')
  const refusal = refusalOf(error)
  logFailure(error, request, refusal)
  return answerUnread(request, reply, { refusal, isCostly })
}

class IncomingUpload implements RunningUpload {
  readonly #context: UploadContext
  readonly #request: FastifyRequest
  readonly #reply: FastifyReply
  readonly #calls: AccountCalls
  readonly #gone = new AbortController()
  readonly #place: { region: RegionCode; blobs: BlobStore }
  #form = new UploadForm(undefined)
  #file: IncomingFile | undefined
  #fileBytes = 0
  /** Bytes of the file that the stage has not received. */
  #waiting: GrowingBytes | undefined
  #upload: UploadPlace | undefined
  #body: RequestBytes | undefined
  /** The service ended it. */
  cutOffBy: RefusalError | undefined
  #committed = false
  #caller: TokenClaim | undefined
  /** The folder that the caller was permitted to upload to; undefined: none was checked yet. */
  #checkedFolder: string | undefined

  constructor(context: UploadContext, request: FastifyRequest, reply: FastifyReply) {
    this.#context = context
    this.#request = request
    this.#reply = reply
    this.#place = context.placeOf?.(request) ?? { region: context.settings.region, blobs: context.blobs }
    this.#calls = new AccountCalls({ ...context, ids: context.keyring.ids }, request)
    request.raw.once('close', () => {
      if (!request.raw.complete) this.#gone.abort()
    })
  }

  async receive(): Promise<Record<string, unknown>> {
    const { headers } = this.#request
    this.#upload = this.#context.running.begin(this.#network, this)
    const key = idempotencyKeyOf(this.#request)
    const fileBytesMax = this.#fileBytesMax
    if (Number(headers['content-length']) > fileBytesMax + aroundFileBytesMax)
      throw new RefusalError('error-fileSize')
    const scanner =
      headers['content-type'] === undefined
        ? undefined
        : new FormScanner(headers['content-type'], this.#context.forms)
    this.#form = new UploadForm(headerToken(this.#request))
    if (headers.expect !== undefined) {
      await this.#checkEarly()
      this.#reply.raw.writeContinue()
    }
    // Without a type there is no body: a form without fields.
    if (scanner !== undefined) await this.#readForm(scanner)
    const { file, folderId, modTime } = await this.#checkAll()
    const drawnMs = this.#caller === undefined ? await this.#drawAccount() : undefined
    let blob: BlobInfo
    let stage: BlobStage
    try {
      stage = file.stage === undefined || this.#waiting !== undefined ? await this.#passOn() : file.stage
      blob = await stage.commit({ pinMs: pinMsMax })
      // No account refers to the bytes: they are collected.
      if (this.#context.blocked.blocksBlob(blob.id)) throw new RefusalError('error-blocked')
      await this.#scan(blob)
    } catch (error) {
      this.#refundAccount(drawnMs)
      throw error
    }
    this.#committed = true
    try {
      const holders = reportsHolders(stage) ? stage.acknowledgedBy : undefined
      return await this.#add({ name: file.name, type: file.type, blob, holders, folderId, modTime, key })
    } catch (error) {
      // After a fault it is unknown whether the account was made.
      if (error instanceof RefusalError) this.#refundAccount(drawnMs)
      throw error
    }
  }

  /** No account has the bytes yet. The pin is much longer than a scan may take. */
  async #scan(blob: BlobInfo): Promise<void> {
    const { blobs } = this.#place
    switch (await this.#context.scans.judge({ blob, blobs, network: this.#network })) {
      case 'blocked':
        throw new RefusalError('error-blocked')
      case 'unavailable':
        throw new RefusalError('error-unavailable', { retryAfter: unavailableRetrySeconds })
      case 'good':
        if (this.cutOffBy !== undefined) throw this.cutOffBy
    }
  }

  get #network(): string {
    return networkOf(clientAddress(this.#request))
  }

  get isComplete(): boolean {
    return this.#request.raw.complete
  }

  /** Received. */
  get bytes(): number {
    return this.#upload?.bytes ?? 0
  }

  cutOff(refusal: RefusalError): void {
    this.cutOffBy = refusal
    this.#body?.cutOff(refusal)
    if (this.isStaged) void this.discard()
  }

  /** Releases its places. */
  leave(): void {
    this.#upload?.end()
  }

  /** Its body came in too many small pieces. */
  get isCostly(): boolean {
    return this.#body?.isCostly ?? false
  }

  /** Bytes are held that were not committed. */
  get isStaged(): boolean {
    return this.#file?.stage !== undefined && !this.#committed
  }

  async discard(): Promise<void> {
    await this.#file?.stage?.abort()
  }

  /**
   * An upload without a token makes an account, so it draws on the budget of new accounts.
   * @returns the time of the draw
   */
  async #drawAccount(): Promise<number> {
    const drawnMs = this.#context.clock.now()
    await this.#context.rateLimits.takeAddress(this.#request, 'createAccount')
    return drawnMs
  }

  #refundAccount(drawnMs: number | undefined): void {
    if (drawnMs !== undefined) this.#context.rateLimits.refundAddress(this.#request, 'createAccount', drawnMs)
  }

  async #readForm(scanner: FormScanner): Promise<void> {
    const { running, rateLimits } = this.#context
    const place = this.#upload as UploadPlace
    let inFile = false
    const body = requestBytes(this.#request.raw as PiecewiseRequest, slowestUploadPace, {
      isScarce: () => running.isScarce,
      tookSmallPieces: () => rateLimits.takeAddress(this.#request, 'smallPieces'),
    })
    this.#body = body
    for await (const chunk of body) {
      place.bytes += chunk.length
      scanner.feed(chunk)
      for (let event = scanner.next(); event !== undefined; event = scanner.next()) {
        switch (event.kind) {
          case 'part':
            inFile = event.part.name === 'file'
            if (scanner.needsPause) await othersTurn()
            if (inFile) await this.#beginFile(event.part)
            else this.#form.begin(event.part)
            break
          case 'data':
            if (inFile) {
              const room = this.#take(event.bytes)
              if (room !== undefined) await room
            } else this.#form.data(event.bytes)
            break
          case 'part end':
            if (!inFile) this.#form.end()
            break
        }
      }
    }
    scanner.end()
    // An upload mostly waits for its disk. Objects that it keeps meanwhile reach the old generation
    // of the garbage collector, and are expensive there.
    this.#body = undefined
  }

  async #beginFile(part: PartHead): Promise<void> {
    if (this.#file !== undefined || part.fileName === undefined || part.fileName === '') {
      throw await this.#badParameter(new RefusalError('error-file'))
    }
    await this.#checkEarly()
    const name = cleanUploadName(part.fileName)
    this.#file = { name, type: fileType(part.type, name), stage: undefined }
    // Everything has arrived: the client is not waited for.
    if (this.isComplete) await this.#openStage(this.#file)
  }

  get #fileBytesMax(): number {
    return this.#context.settings.fileBytesMax ?? Number.POSITIVE_INFINITY
  }

  /** An upload without a token is refused. */
  get #needsToken(): boolean {
    return !this.#context.settings.guestUploads
  }

  /** Adds bytes of the file. @returns when there is room for more; undefined: now. */
  #take(bytes: Buffer): Promise<unknown> | undefined {
    this.#fileBytes += bytes.length
    if (this.#fileBytes > this.#fileBytesMax) throw new RefusalError('error-fileSize')
    if (this.#needsToken && this.#fileBytes > beforeTokenBytesMax && this.#form.token === undefined)
      throw new RefusalError('error-token')
    const stage = this.#file?.stage
    const waits = stage === undefined || (bytes.length < smallPieceBytes && !this.isComplete)
    if (!waits && this.#waiting === undefined) return stage.write(bytes)
    this.#waiting ??= new GrowingBytes()
    if (!waits || this.#waiting.length + bytes.length > smallBytesMax) return this.#passOn(bytes)
    this.#waiting.append(bytes)
    return undefined
  }

  /** Gives the stage the waiting bytes, and these. */
  async #passOn(bytes?: Buffer): Promise<BlobStage> {
    const file = this.#file as IncomingFile
    const stage = file.stage ?? (await this.#openStage(file))
    const waiting = this.#waiting
    this.#waiting = undefined
    if (waiting !== undefined) await stage.write(waiting.view())
    if (bytes !== undefined) await stage.write(bytes)
    return stage
  }

  async #openStage(file: IncomingFile): Promise<BlobStage> {
    this.#upload?.takeStage()
    const announced = Number(this.#request.headers['content-length'])
    file.stage = await this.#place.blobs.stage({
      ...(Number.isSafeInteger(announced) ? { expectedBytes: announced } : {}),
      signal: this.#gone.signal,
    })
    if (this.cutOffBy !== undefined) throw this.cutOffBy
    return file.stage
  }

  /**
   * Refuses early, before bytes are read, where possible. Fields that come later are checked at the
   * end.
   */
  async #checkEarly(): Promise<void> {
    const { token } = this.#form
    if (token === undefined) return
    if (!this.#form.namesFolder) return await this.#authenticate(token)
    let folderId: string | undefined
    try {
      folderId = this.#form.folderId
    } catch (error) {
      throw await this.#badParameter(error)
    }
    await this.#checkFolder(token, folderId)
  }

  /** All checks before the bytes are made durable, in the contract's order. */
  async #checkAll(): Promise<{
    file: IncomingFile
    folderId: string | undefined
    modTime: number | undefined
  }> {
    const { token } = this.#form
    if (token === undefined && (this.#form.namesFolder || this.#needsToken))
      throw new RefusalError('error-token')
    const file = this.#file
    let parameters: { folderId: string | undefined; modTime: number | undefined }
    try {
      const { folderId, modTime } = this.#form
      parameters = { folderId, modTime }
      if (file === undefined) throw new RefusalError('error-file')
    } catch (error) {
      throw await this.#badParameter(error)
    }
    if (token !== undefined) await this.#checkFolder(token, parameters.folderId)
    return { file, ...parameters }
  }

  /** A bad parameter is reported only to a caller with a valid token, or without one. */
  async #badParameter(error: unknown): Promise<unknown> {
    const { token } = this.#form
    if (token !== undefined) await this.#authenticate(token)
    return error
  }

  async #authenticate(token: string): Promise<void> {
    if (this.#caller === undefined) await this.#signIn(token, (caller) => this.#calls.authenticate(caller))
  }

  async #checkFolder(token: string, folderId: string | undefined): Promise<void> {
    const folder = folderId ?? 'a new one'
    if (this.#checkedFolder === folder) return
    await this.#signIn(token, (caller) => this.#calls.checkUpload(caller, folderId))
    this.#checkedFolder = folder
  }

  /** Draws on the account's budget once, when its token was first accepted. */
  async #signIn(token: string, ask: (caller: TokenClaim) => Promise<void>): Promise<void> {
    const caller = this.#caller ?? (await this.#calls.signedIn(token))
    await ask(caller)
    if (this.#caller !== undefined) return
    this.#caller = caller
    await this.#context.rateLimits.takeAccount(this.#request, 'upload', caller.accountId)
  }

  async #add(upload: {
    name: string
    type: string
    blob: BlobInfo
    /** Nodes that acknowledged the blob; undefined: its store is one. */
    holders: readonly string[] | undefined
    folderId: string | undefined
    modTime: number | undefined
    key: string | undefined
  }): Promise<Record<string, unknown>> {
    const { name, blob, holders, key } = upload
    const blobId = Buffer.from(blob.id)
    const file: AddFile = {
      createAccount:
        this.#caller === undefined
          ? { tokenKeyId: this.#context.settings.tokenKeyId, email: undefined, isNewId: true }
          : undefined,
      folderId: upload.folderId,
      name,
      mimetype: upload.type,
      blob: {
        id: blobId,
        incarnation: Buffer.from(blob.incarnation),
        size: blob.size,
        crc32: blob.crc32,
        placementGroup: blob.placementGroup ?? 0,
      },
      modTime: upload.modTime,
    }
    const accountId = this.#caller?.accountId ?? this.#newGuest({ key, name, blob })
    const requestId = key === undefined ? undefined : uploadRequestId(key)
    const view = await this.#calls.addFile(accountId, this.#caller, file, requestId)
    // The outcome of an earlier upload with this key and other bytes.
    if (!view.item?.blob?.id.equals(blobId)) throw new RefusalError('error-idempotencyKey')
    this.#context.transfers.note({
      kind: 'upload',
      address: clientAddress(this.#request),
      account: accountId,
      content: view.item.id,
      name: view.item.name,
      size: blob.size,
      blob: blob.id,
    })
    // An earlier upload with this key may have made another copy.
    const isThisCopy = view.item.blob.incarnation.equals(blob.incarnation)
    return this.#answer(accountId, view, isThisCopy ? holders : undefined)
  }

  #newGuest({ key, name, blob }: { key: string | undefined; name: string; blob: BlobInfo }): AccountId {
    const { keyring, settings, idempotencySecret: secret } = this.#context
    const { founders } = settings
    const { region } = this.#place
    if (key === undefined) return keyring.ids.account(region)
    const address = clientAddress(this.#request)
    return guestOf({ key, name, address, blobId: blob.id }, { ids: keyring.ids, founders, secret })
  }

  #answer(
    accountId: AccountId,
    view: ContentView,
    servers: readonly string[] | undefined,
  ): Record<string, unknown> {
    const { clock, keyring, present, settings } = this.#context
    const item = view.item
    if (item === undefined) throw new Error('a file was added and not shown')
    const { tokenKeyId: keyId, tokenCounter: counter } = view
    return present.item(item, {
      nowSeconds: Math.floor(clock.now() / 1000),
      tokenCounter: counter,
      ...(servers === undefined ? {} : { servers }),
      extra: {
        downloadPage: `${settings.webUrl}/d/${item.parentFolderCode ?? item.parentFolder}`,
        ...(this.#caller === undefined
          ? { guestToken: keyring.tokens.token(accountId, { keyId, counter }) }
          : {}),
      },
    })
  }
}

/**
 * @throws RefusalError error-token: a malformed Authorization header must not make a guest account.
 */
function headerToken(request: FastifyRequest): string | undefined {
  const token = bearerOf(request)
  const header = request.headers.authorization
  if (token === undefined && header !== undefined && !/^(?:basic|digest|negotiate) /i.test(header)) {
    throw new RefusalError('error-token')
  }
  return token
}
