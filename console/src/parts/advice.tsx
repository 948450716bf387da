import { addressOf } from '../route.ts'
import { Link } from './link.tsx'

const pages = /\b(Models|Access|Resources|Budgets) page\b/

/** The advice for a code, with links to the pages that it names. */
export function Advice({ text }: { readonly text: string }) {
  return text.split(pages).map((part, at) =>
    at % 2 === 0 ? (
      part
    ) : (
      <Link key={part} to={addressOf(part.toLowerCase())}>
        {part} page
      </Link>
    ),
  )
}
