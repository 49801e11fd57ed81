/** Suggests commands for an unknown name. */
import { editsBetween } from '@holdfast/kernel'
import type { Command } from './command.ts'

/** A name with more wrong letters is another name. */
const lettersWrongMax = 2
const helpHint = 'all commands: npm run -s ctl -- --help'

/** One line: the error, and the suggestions. */
export function noCommand(words: readonly string[], commands: readonly Pick<Command, 'words'>[]): string {
  const names = commands.map(({ words: name }) => name)
  const [first = '', second] = words
  if (first === '') return `name a command; ${helpHint}`
  const ofGroup = names.filter((name) => name.startsWith(`${first} `))
  const near = nearest(words, ofGroup.length > 0 ? ofGroup : names)
  const meant = near.map((name) => `"${name}"`).join(' or ')
  if (ofGroup.length > 0 && near.length === 0) {
    const wrong =
      second === undefined ? `${first} is not a complete command` : `there is no "${first} ${second}"`
    return `${wrong}: it could be ${ofGroup.map((name) => `"${name}"`).join(', ')}`
  }
  const said = ofGroup.length > 0 || near.some((name) => name.includes(' ')) ? words.slice(0, 2) : [first]
  return `there is no command "${said.join(' ')}"${meant === '' ? '' : `, did you mean ${meant}?`}; ${helpHint}`
}

/** The names closest to the first words; none when all are far. */
function nearest(words: readonly string[], names: readonly string[]): string[] {
  const far = names.map((name) => {
    const said = words.slice(0, name.split(' ').length).join(' ').toLowerCase()
    return { name, wrong: editsBetween(said, name) }
  })
  const least = Math.min(lettersWrongMax, ...far.map(({ wrong }) => wrong))
  return far.filter(({ wrong }) => wrong === least).map(({ name }) => name)
}
