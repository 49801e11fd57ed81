import { MemoryBlobStore } from '@holdfast/blob-store'
import type { RegionCode } from '@holdfast/kernel'
import t from 'tap'
import { UploadRouting } from '../src/upload-routing.ts'

function places(options: { healthy?: RegionCode[]; country?: string } = {}): UploadRouting {
  const regions: RegionCode[] = ['eu-par', 'na-nyc', 'ap-tyo']
  const { healthy = regions } = options
  return new UploadRouting({
    own: 'na-nyc',
    regions,
    countries: { countryOf: () => options.country },
    isHealthy: (region) => healthy.includes(region),
    blobsOf: () => new MemoryBlobStore(),
  })
}

const address = '192.0.2.1'

t.test('a regional host pins its region, also an unhealthy one; an unknown region is no pin', async (t) => {
  const host = 'upload-eu-par.example.org'
  t.equal(places({ country: 'JP' }).regionFor({ host, address }), 'eu-par')
  t.equal(places({ healthy: ['ap-tyo'] }).regionFor({ host, address }), 'eu-par')
  const elsewhere = 'upload-sa-sao.example.org'
  t.equal(places({ country: 'FR' }).regionFor({ host: elsewhere, address }), 'eu-par')
})

t.test(
  'the generic host takes the healthy region nearest to the client, without a country its own',
  async (t) => {
    const host = 'upload.example.org'
    t.equal(places({ country: 'KR' }).regionFor({ host, address }), 'ap-tyo')
    t.equal(places({ country: 'KR', healthy: ['eu-par', 'na-nyc'] }).regionFor({ host, address }), 'eu-par')
    t.equal(
      places({ country: 'BR' }).regionFor({ host, address }),
      'na-nyc',
      'the nearest of those that are there',
    )
    t.equal(places().regionFor({ host, address }), 'na-nyc')
    t.equal(places({ healthy: ['ap-tyo'] }).regionFor({ host: undefined, address }), 'ap-tyo')
    t.equal(places({ healthy: [] }).regionFor({ host, address }), 'na-nyc', 'where it is refused clearly')
  },
)
