/** The operations on texts that return numbers: vectors, scores, judgements, tokens. */

import { type Answer, chatUsage, countWords, madeAt, write } from './words.ts'

export const embeddings: Answer = (body) => {
  const { input } = write(body, 0)
  const data = [body.input].flat().map((_, index) => {
    return { object: 'embedding', index, embedding: [0.6, 0.8] }
  })
  const usage = { prompt_tokens: input, total_tokens: input }
  return { whole: { object: 'list', data, model: body.model, usage } }
}

/** The score of a text is the share of words that it has in common with the question. */
function scoreOf(query: unknown, text: unknown): number {
  const words = (value: unknown) => new Set(JSON.stringify(value ?? '').match(/\w+/g))
  const [asked, found] = [words(query), words(text)]
  return asked.size === 0 ? 0 : [...asked].filter((word) => found.has(word)).length / asked.size
}

export const rerank: Answer = (body) => {
  const usage = chatUsage(write(body, 0))
  const documents = Array.isArray(body.documents) ? body.documents : []
  const results = documents
    .map((each, index) => ({
      index,
      document: typeof each === 'string' ? { text: each } : each,
      relevance_score: scoreOf(body.query, each),
    }))
    .sort((a, b) => b.relevance_score - a.relevance_score)
    .slice(0, typeof body.top_n === 'number' ? body.top_n : undefined)
  return { whole: { id: 'rerank-sample', model: body.model, usage, results } }
}

export const score: Answer = (body) => {
  const [query, texts] = [body.text_1 ?? body.queries, body.text_2 ?? body.documents]
  const data = [texts].flat().map((text, index) => {
    return { index, object: 'score', score: scoreOf(query, text) }
  })
  const base = { id: 'score-sample', object: 'list', created: madeAt, model: body.model }
  return { whole: { ...base, data, usage: chatUsage(write(body, 0)) } }
}

export const moderations: Answer = (body) => {
  const results = [body.input].flat().map(() => {
    return { flagged: false, categories: {}, category_scores: {} }
  })
  return { whole: { id: 'modr-sample', model: body.model, results } }
}

export const tokenize: Answer = (body) => {
  const count = countWords(body.prompt ?? body.messages)
  const tokens = Array.from({ length: count }, (_, i) => i)
  return { whole: { count, max_model_len: 8_192, tokens } }
}

export const detokenize: Answer = (body) => {
  const count = Array.isArray(body.tokens) ? Math.min(body.tokens.length, 10_000) : 0
  return { whole: { prompt: Array.from({ length: count }, () => 'word').join(' ') } }
}
