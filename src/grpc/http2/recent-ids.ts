/** The last few thousand stream ids of some kind on a connection; older ones are forgotten. */

const maxIds = 4_096

export class RecentIds {
  #ids = new Set<number>()
  #older = new Set<number>()

  has(id: number): boolean {
    return this.#ids.has(id) || this.#older.has(id)
  }

  add(id: number): void {
    if (this.#ids.size >= maxIds) {
      this.#older = this.#ids
      this.#ids = new Set()
    }
    this.#ids.add(id)
  }

  delete(id: number): void {
    this.#ids.delete(id)
    this.#older.delete(id)
  }
}
