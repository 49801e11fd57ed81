import type { RegionCode } from '@holdfast/kernel'
import t from 'tap'
import { regionalUploadUrl } from '../src/region-hosts.ts'

t.test('the name of a regional upload host is under the domain of the upload host', async (t) => {
  const heard = () => 'http://127.0.0.1:1'
  t.equal(
    regionalUploadUrl('https://upload.example.com', 'na-nyc', heard),
    'https://upload-na-nyc.example.com',
  )
  t.equal(
    regionalUploadUrl('https://files.example.com:8443', 'eu-par'),
    'https://upload-eu-par.files.example.com:8443',
  )
})

t.test('without a domain the URL is what the region reports', async (t) => {
  const heard = (region: RegionCode) => (region === 'na-nyc' ? 'http://127.0.0.1:8181' : undefined)
  t.equal(regionalUploadUrl('http://127.0.0.1:8081', 'na-nyc', heard), 'http://127.0.0.1:8181')
  t.equal(regionalUploadUrl('http://127.0.0.1:8081', 'eu-par', heard), 'http://127.0.0.1:8081')
  t.equal(regionalUploadUrl('http://localhost:8081', 'ap-tyo'), 'http://localhost:8081')
  t.equal(regionalUploadUrl('http://[::1]:8081', 'na-nyc', heard), 'http://127.0.0.1:8181')
})
