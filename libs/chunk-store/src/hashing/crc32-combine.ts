/**
 * CRC-32 of a whole from the CRC-32s of its parts, so that the bytes are summed only once.
 *
 * Appending n zero bytes to a message is a linear map of its checksum, a 32 × 32 bit matrix; the
 * checksum of A ‖ B is that map for |B| applied to crc(A), xor crc(B). It is Mark Adler's method
 * in zlib. The maps for powers of two are made once, each by squaring the one before. Those of the
 * bits of |B| are applied to the checksum one after the other: no map for |B| itself is made.
 */
const polynomial = 0xedb88320

type Matrix = Uint32Array

export class Crc32Combiner {
  /** By exponent: over 1 zero byte, 2, 4, 8 and so on. */
  readonly #overZeros: Matrix[] = [square(square(square(overOneBit())))]

  /** The CRC-32 of A ‖ B from those of A and B. */
  combine(crcOfA: number, crcOfB: number, bytesOfB: number): number {
    let sum = crcOfA
    for (let exponent = 0, rest = bytesOfB; rest > 0; exponent++, rest = Math.floor(rest / 2))
      if (rest % 2 === 1) sum = apply(this.#overPower(exponent), sum)
    return (sum ^ crcOfB) >>> 0
  }

  #overPower(exponent: number): Matrix {
    let known = this.#overZeros[exponent]
    if (known === undefined) {
      known = square(this.#overPower(exponent - 1))
      this.#overZeros[exponent] = known
    }
    return known
  }
}

function overOneBit(): Matrix {
  const matrix = new Uint32Array(32)
  matrix[0] = polynomial
  for (let bit = 1; bit < 32; bit++) matrix[bit] = 1 << (bit - 1)
  return matrix
}

function square(matrix: Matrix): Matrix {
  return matrix.map((column) => apply(matrix, column))
}

function apply(matrix: Matrix, vector: number): number {
  let sum = 0
  for (let bit = 0, rest = vector >>> 0; rest !== 0; bit++, rest >>>= 1)
    if ((rest & 1) !== 0) sum ^= matrix[bit] as number
  return sum >>> 0
}
