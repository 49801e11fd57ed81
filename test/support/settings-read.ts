/**
 * Records which settings a process reads while it starts. If a change replaces a setting by a
 * constant, the process reads one setting less than before. Settings that are copied together
 * (`...config`) are not counted: for these, the type check finds a missing one.
 */

/** @returns the same settings, and the names of those that were read, like `listen.host`. */
export function recorded<Config extends object>(config: Config): { config: Config; read: Set<string> } {
  const read = new Set<string>()
  // The settings are frozen, and a proxy may not show other values for a frozen object.
  return { config: watched(structuredClone(config), '', read), read }
}

function watched<Part extends object>(part: Part, path: string, read: Set<string>): Part {
  const parts = new Map<string | symbol, object>()
  // A copy asks for the description of each member before its value.
  let copied: string | symbol | undefined
  return new Proxy(part, {
    getOwnPropertyDescriptor(target, name) {
      copied = name
      return Reflect.getOwnPropertyDescriptor(target, name)
    },
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      const isCopied = copied === name
      copied = undefined
      if (isCopied || typeof name === 'symbol' || !Object.hasOwn(target, name)) return value
      read.add(path + name)
      if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
      const known = parts.get(name) ?? watched(value, `${path}${name}.`, read)
      parts.set(name, known)
      return known
    },
  })
}
