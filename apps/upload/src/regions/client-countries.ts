/**
 * Which country an address is registered in, by open data (CC0) from a package: updating the
 * package updates the answers.
 */

import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { normalAddress } from '@holdfast/http-kit'
import { Reader, type Response } from 'mmdb-lib'

const table = '@ip-location-db/geo-whois-asn-country-mmdb/geo-whois-asn-country.mmdb'

export class ClientCountries {
  readonly #reader: Reader<Response>

  private constructor(reader: Reader<Response>) {
    this.#reader = reader
  }

  /** Reads the table: 8 MB that stay in memory. */
  static async open(): Promise<ClientCountries> {
    return new ClientCountries(new Reader(await readFile(createRequire(import.meta.url).resolve(table))))
  }

  /** ISO 3166 code of two letters; undefined for private and unassigned addresses. */
  countryOf(address: string): string | undefined {
    try {
      const row = this.#reader.get(normalAddress(address) ?? address) as {
        country_code?: string
      } | null
      return row?.country_code
    } catch {
      return undefined
    }
  }
}
