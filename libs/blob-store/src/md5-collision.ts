/**
 * Two different 128-byte contents with one md5 (79054025255fb1a26e4bc422aef54eb4), published by
 * X. Wang and H. Yu in "How to Break MD5 and Other Hash Functions", 2005.
 */
export function md5Collision(): [Buffer, Buffer] {
  const left = Buffer.from(
    'd131dd02c5e6eec4693d9a0698aff95c2fcab58712467eab4004583eb8fb7f89' +
      '55ad340609f4b30283e488832571415a085125e8f7cdc99fd91dbdf280373c5b' +
      'd8823e3156348f5bae6dacd436c919c6dd53e2b487da03fd02396306d248cda0' +
      'e99f33420f577ee8ce54b67080a80d1ec69821bcb6a8839396f9652b6ff72a70',
    'hex',
  )
  const right = Buffer.from(left)
  for (const at of [19, 45, 59, 83, 109, 123]) right[at] = (right[at] ?? 0) ^ 0x80
  return [left, right]
}
