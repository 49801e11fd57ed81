import { regionCodes } from '@holdfast/kernel'
import t from 'tap'
import { ClientCountries } from '../src/regions/client-countries.ts'
import { regionsByNearness } from '../src/regions/nearness.ts'
import { pinnedRegion } from '../src/regions/pinned-region.ts'

t.test('every country has all regions, the nearest first', async (t) => {
  const nearest = {
    FR: 'eu-par',
    DE: 'eu-par',
    ZA: 'sa-sao',
    US: 'na-nyc',
    MX: 'na-phx',
    CA: 'na-nyc',
    BR: 'sa-sao',
    AR: 'sa-sao',
    JP: 'ap-tyo',
    KR: 'ap-tyo',
    CN: 'ap-hkg',
    TW: 'ap-hkg',
    SG: 'ap-sgp',
    ID: 'ap-sgp',
    IN: 'ap-sgp',
    AU: 'ap-syd',
    NZ: 'ap-syd',
    fr: 'eu-par',
  }
  for (const [country, region] of Object.entries(nearest)) {
    const regions = regionsByNearness(country) ?? []
    t.equal(regions[0], region, country)
    t.strictSame([...regions].sort(), [...regionCodes].sort())
  }
  for (const unknown of [undefined, '', 'ZZ', '__proto__', 'constructor'])
    t.equal(regionsByNearness(unknown), undefined, `${unknown}`)
})

t.test('addresses have countries, in both families; private and malformed ones have none', async (t) => {
  const countries = await ClientCountries.open()
  t.equal(countries.countryOf('193.0.6.139'), 'NL')
  t.equal(countries.countryOf('::ffff:193.0.6.139'), 'NL')
  t.match(countries.countryOf('2001:67c:2e8:22::c100:68b'), /^[A-Z]{2}$/)
  for (const none of ['127.0.0.1', '10.1.2.3', '::1', 'fe80::1', 'rubbish', ''])
    t.equal(countries.countryOf(none), undefined, none)
})

t.test('every country in the table of addresses that is queried is on the map', async (t) => {
  const countries = await ClientCountries.open()
  const unplaced = new Set<string>()
  for (let first = 1; first < 224; first++)
    for (let second = 0; second < 256; second += 3) {
      const country = countries.countryOf(`${first}.${second}.77.1`)
      if (country !== undefined && regionsByNearness(country) === undefined) unplaced.add(country)
    }
  t.strictSame([...unplaced], [])
})

t.test('a host name pins its region', async (t) => {
  t.equal(pinnedRegion('upload-eu-par.example.org'), 'eu-par')
  t.equal(pinnedRegion('UPLOAD-NA-NYC.example.org:8443'), 'na-nyc')
  t.equal(pinnedRegion('upload-ap-tyo'), 'ap-tyo')
  for (const other of [
    'upload.example.org',
    'upload-eu-xxx.example.org',
    'x-upload-eu-par.example.org',
    undefined,
    '',
  ])
    t.equal(pinnedRegion(other), undefined, `${other}`)
})
