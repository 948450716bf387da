/** The numbers of a table's templates. A text keeps its number as long as the file is there. */

export function createTemplateNumbers(
  most: number,
  write: (template: number, text: string) => void,
) {
  const numbers = new Map<string, number>()
  return {
    get size(): number {
      return numbers.size
    },
    /** undefined: there is no room for another one. */
    numberOf(text: string): number | undefined {
      const known = numbers.get(text)
      if (known !== undefined || numbers.size >= most) return known
      const number = numbers.size
      write(number, text)
      numbers.set(text, number)
      return number
    },
  }
}
