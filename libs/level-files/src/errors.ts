/** A table with blocks that are compressed, which this project never writes. */
export class CompressedTableError extends Error {
  override readonly name = 'CompressedTableError'
  readonly code = 'COMPRESSED_TABLE'

  constructor() {
    super('the table is compressed, and only tables that are not can be read')
  }
}
