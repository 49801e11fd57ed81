import { readFileSync } from 'node:fs'

/** Colours and type of every page of the service; a page's own style follows. */
export const baseStyle = readFileSync(new URL('./base.css', import.meta.url))
