/**
 * Stores as one process sees them until it dies: at its n-th operation, before it is issued or
 * before its answer arrives.
 */
import type { JournalStore, LookupStore } from '@holdfast/journal'

export interface MortalStores<T> {
  journal: JournalStore
  lookups: LookupStore
  /** Resolves at the death. */
  death: Promise<void>
  /** Operations issued so far. */
  count(): number
  extra?: T
}

export function mortal(
  journal: JournalStore,
  lookups: LookupStore,
  dies: { at: number; when: 'before' | 'after' },
): MortalStores<never> {
  const death = Promise.withResolvers<void>()
  const never = new Promise<never>(() => {})
  let operations = 0
  let dead = false

  function run(call: () => unknown): unknown {
    if (dead) return never
    const last = ++operations === dies.at
    if (last) die()
    if (last && dies.when === 'before') return never
    const result = call()
    if (Symbol.asyncIterator in (result as object)) return result
    return Promise.resolve(result).then(
      (value) => (dead ? never : value),
      (error) => (dead ? never : Promise.reject(error)),
    )
  }

  function die(): void {
    dead = true
    death.resolve()
  }

  function wrap<T extends object>(store: T): T {
    return new Proxy(store, {
      get(target, name) {
        const member = Reflect.get(target, name, target) as unknown
        if (typeof member !== 'function') return member
        return (...args: unknown[]) => run(() => member.apply(target, args))
      },
    })
  }

  return { journal: wrap(journal), lookups: wrap(lookups), death: death.promise, count: () => operations }
}
