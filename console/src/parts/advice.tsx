import { addressOf } from '../route.ts'
import { Link } from './link.tsx'

const pages = /\b(Models|Access|Resources|Budgets) page\b/

/** What to do, as the words of a code have it; each page that it names is a link. */
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
