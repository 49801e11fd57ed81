/**
 * md5 (RFC 1321) as WebAssembly, assembled here: one stream, or four side by side.
 *
 * A block is a chain of 64 steps, each waiting for the one before, so a core idles most of the time
 * and cannot work ahead in the same stream. Four streams in the four lanes of a vector register go
 * through the same chain in little more time than one: 0.5 instead of 1.5 CPU-s/GiB. For one stream
 * the result is as fast as OpenSSL's assembly, or a little faster: in the second round `(b ∧ d) +
 * (c ∧ ¬d)` replaces `∨`, so that only one half waits for the step before.
 *
 * ```
 * one (data, blocks, state)                          state: a b c d, 32 bits each
 * four(data0, data1, data2, data3, blocks, state)    state: a b c d, each for four lanes
 * ```
 * Pointers are byte offsets; `blocks` of 64 bytes, at least 1. Data is read from one memory, the
 * state is in another.
 */

export interface Md5Kernel {
  one(data: number, blocks: number, state: number): void
  four(data0: number, data1: number, data2: number, data3: number, blocks: number, state: number): void
}

/** The initial state of a stream. */
export const md5Start = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476] as const
export const md5BlockBytes = 64

/** @param data shared. @param state shared, too: the module accepts only shared memory. */
export function md5Kernel(data: WebAssembly.Memory, state: WebAssembly.Memory): Md5Kernel {
  const module = new WebAssembly.Module(moduleBytes())
  return new WebAssembly.Instance(module, { md5: { data, state } }).exports as unknown as Md5Kernel
}

const shifts = [
  [7, 12, 17, 22],
  [5, 9, 14, 20],
  [4, 11, 16, 23],
  [6, 10, 15, 21],
]
const sines = Array.from({ length: 64 }, (_, n) => Math.floor(Math.abs(Math.sin(n + 1)) * 2 ** 32) | 0)
/** Index of the message word in the n-th step of a round. */
const wordOf = [
  (n: number) => n,
  (n: number) => (5 * n + 1) % 16,
  (n: number) => (3 * n + 5) % 16,
  (n: number) => (7 * n) % 16,
]

type Code = number[]

const i32 = 0x7f
const v128 = 0x7b
const loop: Code = [0x03, 0x40]
const end: Code = [0x0b]
const again: Code = [0x0d, 0]
const i32Add: Code = [0x6a]
const i32Sub: Code = [0x6b]
const not32: Code = [...int(-1), 0x73]

/** One step's arithmetic, on one stream or on four. */
interface Arithmetic {
  type: number
  streams: 1 | 4
  add: Code
  and: Code
  or: Code
  xor: Code
  not: Code
  /** The first, and not the second. */
  andNot: Code
  constant(value: number): Code
  /** Rotates the value on the stack. @param spare a local. */
  rotateLeft(bits: number, spare: number): Code
  load(memory: 0 | 1, offset: number): Code
  store(memory: 0 | 1, offset: number): Code
}

const single: Arithmetic = {
  type: i32,
  streams: 1,
  add: i32Add,
  and: [0x71],
  or: [0x72],
  xor: [0x73],
  not: not32,
  andNot: [...not32, 0x71],
  constant: int,
  rotateLeft: (bits) => [...int(bits), 0x77],
  load: (memory, offset) => [0x28, ...place(memory, offset)],
  store: (memory, offset) => [0x36, ...place(memory, offset)],
}

const fourfold: Arithmetic = {
  type: v128,
  streams: 4,
  add: vector(0xae),
  and: vector(0x4e),
  or: vector(0x50),
  xor: vector(0x51),
  not: vector(0x4d),
  andNot: vector(0x4f),
  constant: (value) => [...int(value), ...vector(0x11)],
  rotateLeft: (bits, spare) => [
    ...[...tee(spare), ...int(bits), ...vector(0xab)],
    ...[...get(spare), ...int(32 - bits), ...vector(0xad)],
    ...vector(0x50),
  ],
  load: (memory, offset) => [...vector(0x00), ...place(memory, offset)],
  store: (memory, offset) => [...vector(0x0b), ...place(memory, offset)],
}

function moduleBytes(): Uint8Array {
  const kernels = [kernel(single), kernel(fourfold)]
  const sharedMemory = [2, 3, 1, ...unsignedLeb128(65_536)]
  const imports = ['data', 'state'].flatMap((memory) => [...text('md5'), ...text(memory), ...sharedMemory])
  return Uint8Array.from([
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, [2, ...kernels.flatMap(({ parameters }) => [0x60, ...vectorOf(parameters), 0])]),
    ...section(2, [2, ...imports]),
    ...section(3, [2, 0, 1]),
    ...section(7, [2, ...text('one'), 0, 0, ...text('four'), 0, 1]),
    ...section(10, [2, ...kernels.flatMap(({ body }) => vectorOf(body))]),
  ])
}

function kernel(by: Arithmetic): { parameters: number[]; body: Code } {
  const { streams } = by
  const pointers = Array.from({ length: streams }, (_, n) => n)
  const blocks = streams
  const state = streams + 1
  const parameters = Array.from({ length: streams + 2 }, () => i32)
  const locals = Array.from({ length: 29 }, (_, n) => streams + 2 + n)
  const digest = locals.slice(0, 4)
  const before = locals.slice(4, 8)
  const words = locals.slice(8, 24)
  const spares = locals.slice(24)
  const wordBytes = 4 * streams
  const body = [
    ...vectorOf([[...unsignedLeb128(locals.length), by.type]]).flat(),
    ...digest.flatMap((word, n) => [...get(state), ...by.load(1, n * wordBytes), ...set(word)]),
    ...loop,
    ...(streams === 1 ? loadBlock(words) : loadFourBlocks(pointers, words, spares)),
    ...digest.flatMap((word, n) => [...get(word), ...set(at(before, n))]),
    ...steps(by, digest, words, at(spares, 0)),
    ...digest.flatMap((word, n) => [...get(word), ...get(at(before, n)), ...by.add, ...set(word)]),
    ...pointers.flatMap((pointer) => [...get(pointer), ...int(md5BlockBytes), ...i32Add, ...set(pointer)]),
    ...[...get(blocks), ...int(1), ...i32Sub, ...tee(blocks), ...again],
    ...end,
    ...digest.flatMap((word, n) => [...get(state), ...get(word), ...by.store(1, n * wordBytes)]),
    ...end,
  ]
  return { parameters, body }
}

function steps(by: Arithmetic, digest: number[], words: number[], spare: number): Code {
  const code: Code = []
  let [a, b, c, d] = digest as [number, number, number, number]
  for (let n = 0; n < 64; n++) {
    const round = n >> 4
    const word = at(words, at(wordOf, round)(n % 16))
    code.push(
      ...[...get(a), ...get(word), ...by.add, ...by.constant(at(sines, n)), ...by.add],
      ...mixRound(by, round, { b, c, d }),
      ...by.rotateLeft(at(at(shifts, round), n % 4), spare),
      ...[...get(b), ...by.add, ...set(a)],
    )
    ;[a, b, c, d] = [d, a, b, c]
  }
  return code
}

/**
 * Adds the round's function of b, c and d. The part that depends on b, the previous step, comes
 * last.
 */
function mixRound(by: Arithmetic, round: number, { b, c, d }: { b: number; c: number; d: number }): Code {
  const [x, y, z] = [get(b), get(c), get(d)]
  switch (round) {
    case 0:
      return [...z, ...y, ...z, ...by.xor, ...x, ...by.and, ...by.xor, ...by.add]
    case 1:
      return [...y, ...z, ...by.andNot, ...by.add, ...x, ...z, ...by.and, ...by.add]
    case 2:
      return [...y, ...z, ...by.xor, ...x, ...by.xor, ...by.add]
    default:
      return [...y, ...z, ...by.not, ...x, ...by.or, ...by.xor, ...by.add]
  }
}

function loadBlock(words: number[]): Code {
  return words.flatMap((word, n) => [...get(0), ...single.load(0, 4 * n), ...set(word)])
}

/**
 * Words n to n + 3 of each stream become, for each of the four words, a vector over the streams: a
 * transposition.
 */
function loadFourBlocks(pointers: number[], words: number[], spares: number[]): Code {
  const code: Code = []
  const [w, x, y, z] = spares as [number, number, number, number]
  for (let n = 0; n < 16; n += 4) {
    const [a, b, c, d] = words.slice(n, n + 4) as [number, number, number, number]
    for (const pointer of pointers)
      code.push(...get(pointer), ...fourfold.load(0, 4 * n), ...set(at(spares, pointer)))
    code.push(
      ...[...pickLanes(w, x, [0, 4, 1, 5], a), ...pickLanes(y, z, [0, 4, 1, 5], b)],
      ...[...pickLanes(w, x, [2, 6, 3, 7], c), ...pickLanes(y, z, [2, 6, 3, 7], d)],
      ...[...pickLanes(a, b, [0, 1, 4, 5], w), ...pickLanes(a, b, [2, 3, 6, 7], x)],
      ...[...pickLanes(c, d, [0, 1, 4, 5], y), ...pickLanes(c, d, [2, 3, 6, 7], z)],
      ...[...get(w), ...set(a), ...get(x), ...set(b), ...get(y), ...set(c), ...get(z), ...set(d)],
    )
  }
  return code
}

/** Four of the eight words of two vectors, into a third. */
function pickLanes(first: number, second: number, which: number[], into: number): Code {
  const bytes = which.flatMap((word) => [4 * word, 4 * word + 1, 4 * word + 2, 4 * word + 3])
  return [...get(first), ...get(second), ...vector(0x0d), ...bytes, ...set(into)]
}

function get(local: number): Code {
  return [0x20, ...unsignedLeb128(local)]
}

function set(local: number): Code {
  return [0x21, ...unsignedLeb128(local)]
}

function tee(local: number): Code {
  return [0x22, ...unsignedLeb128(local)]
}

function int(value: number): Code {
  return [0x41, ...signedLeb128(value)]
}

function vector(code: number): Code {
  return [0xfd, ...unsignedLeb128(code)]
}

/** The operands of a load or store. Alignment is not guaranteed. */
function place(memory: 0 | 1, offset: number): Code {
  return [0x40, memory, ...unsignedLeb128(offset)]
}

function section(id: number, content: Code): Code {
  return [id, ...vectorOf(content)]
}

function text(name: string): Code {
  return vectorOf([...Buffer.from(name)])
}

/** With their count before them. */
function vectorOf<T>(items: T[]): (T | number)[] {
  return [...unsignedLeb128(items.length), ...items]
}

function unsignedLeb128(value: number): Code {
  const rest = value >>> 7
  return rest === 0 ? [value & 0x7f] : [(value & 0x7f) | 0x80, ...unsignedLeb128(rest)]
}

function signedLeb128(value: number): Code {
  const rest = value >> 7
  const byte = value & 0x7f
  const isLast = rest === (byte >= 0x40 ? -1 : 0)
  return isLast ? [byte] : [byte | 0x80, ...signedLeb128(rest)]
}

function at<T>(items: readonly T[], index: number): T {
  return items[index] as T
}
