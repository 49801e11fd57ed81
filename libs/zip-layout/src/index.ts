export { layOut, layOutInSlices, type Piece, type TreeEntry, type ZipLayout } from './layout.ts'
export { cleanName, nameBytesMax, uniqueNames, withoutDirections } from './names.ts'
