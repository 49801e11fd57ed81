import t from 'tap'
import { defaultUploadBounds, uploadSettings } from '../src/settings.ts'

t.test('uploads follow the configuration of their process', async (t) => {
  const config = {
    ...{ trustProxy: 2, region: 'na-nyc' as const, tokenKeyId: 7, guestUploads: false },
    ...{ fileBytesMax: 5, drainMs: 9 },
  }
  const urls = { download: 'http://down.test', web: 'http://web.test' }
  const founders = ['eu-par', 'na-nyc'] as const
  const settings = uploadSettings({ ...config, rateLimits: 'default' }, { urls, founders })
  t.strictSame(settings, {
    ...{ ...config, ...defaultUploadBounds, founders },
    ...{ downloadUrl: urls.download, webUrl: urls.web },
  })
  const { uploadsPerNetworkMax } = uploadSettings({ ...config, rateLimits: 'off' }, { urls, founders })
  t.equal(uploadsPerNetworkMax, Number.POSITIVE_INFINITY)
})
