/** Numbers the templates of a table. A text keeps its number for the life of the file. */

export function createTemplateNumbers(
  most: number,
  write: (template: number, text: string) => void,
) {
  const numbers = new Map<string, number>()
  return {
    get size(): number {
      return numbers.size
    },
    /** Returns undefined if there is no room for another template. */
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
