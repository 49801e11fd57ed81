/** The options of a program that people start by hand. */
import { readFileSync } from 'node:fs'
import { type ParseArgsOptionsConfig, parseArgs } from 'node:util'

/**
 * `--help` tells how it is used and ends the program; options that make no sense end it with 2.
 * @param name of the `npm` script.
 * @returns the options' values, and how to end when they do not fit together.
 */
export function commandLine<T extends ParseArgsOptionsConfig>(name: string, usage: string, options: T) {
  const refuse = (why: string): never => {
    console.error(`${name}: ${why}\n\n${usage}`)
    process.exit(2)
  }
  if (process.argv.slice(2).some((word) => word === '--help' || word === '-h')) {
    console.log(usage)
    process.exit()
  }
  const understand = () => {
    try {
      return parseArgs({ options }).values
    } catch (error) {
      return refuse((error as Error).message)
    }
  }
  return { values: understand(), refuse }
}

/** The comment at the top of a program's file. */
export function headOf(file: string): string {
  const lines = readFileSync(file, 'utf8').split('\n')
  return lines
    .slice(1, lines.indexOf(' */'))
    .map((line) => line.slice(3))
    .join('\n')
}
