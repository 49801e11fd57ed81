/**
 * CRC-32 of a whole from the CRC-32s of its parts, so that the bytes are summed only once.
 *
 * Appending n zero bytes to a message is a linear map of its checksum, a 32 × 32 bit matrix; the
 * checksum of A ‖ B is that map for |B| applied to crc(A), xor crc(B). Matrices are squared to get
 * powers of two (Mark Adler's method in zlib). The map for the most frequent length, a full chunk,
 * is made once.
 */
const polynomial = 0xedb88320

type Matrix = Uint32Array

export class Crc32Combiner {
  readonly #chunkBytes: number
  readonly #overChunk: Matrix

  constructor(chunkBytes: number) {
    this.#chunkBytes = chunkBytes
    this.#overChunk = overZeros(chunkBytes)
  }

  /** The CRC-32 of A ‖ B from those of A and B. */
  combine(crcOfA: number, crcOfB: number, bytesOfB: number): number {
    if (bytesOfB === 0) return crcOfA
    const matrix = bytesOfB === this.#chunkBytes ? this.#overChunk : overZeros(bytesOfB)
    return (apply(matrix, crcOfA) ^ crcOfB) >>> 0
  }
}

function overZeros(bytes: number): Matrix {
  let power = square(square(square(overOneBit()))) // eight zero bits: one byte
  let result: Matrix | undefined
  for (let rest = bytes; ; power = square(power)) {
    if (rest % 2 === 1) result = result === undefined ? power : multiply(power, result)
    rest = Math.floor(rest / 2)
    if (rest === 0) return result ?? identity()
  }
}

function overOneBit(): Matrix {
  const matrix = new Uint32Array(32)
  matrix[0] = polynomial
  for (let bit = 1; bit < 32; bit++) matrix[bit] = 1 << (bit - 1)
  return matrix
}

function identity(): Matrix {
  return Uint32Array.from({ length: 32 }, (_, bit) => 1 << bit)
}

function square(matrix: Matrix): Matrix {
  return multiply(matrix, matrix)
}

/** First `right`, then `left`. */
function multiply(left: Matrix, right: Matrix): Matrix {
  return Uint32Array.from(right, (column) => apply(left, column))
}

function apply(matrix: Matrix, vector: number): number {
  let sum = 0
  for (let bit = 0, rest = vector >>> 0; rest !== 0; bit++, rest >>>= 1)
    if ((rest & 1) !== 0) sum ^= matrix[bit] as number
  return sum >>> 0
}
