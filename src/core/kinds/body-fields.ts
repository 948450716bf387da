/** Fields of a request's body that a ModelRef opens, and that are refused without it. */

/**
 * Fields that name what is stored in the account at the model's server: responses, conversations, files,
 * containers. `item_reference` is an item of the input that is only an id; `audio.id` an earlier answer
 * with sound. envoy/lua/request-body.lua has the places in which the APIs define them.
 */
export const stateFields = [
  'previous_response_id',
  'conversation',
  'item_reference',
  'file_id',
  'file_ids',
  'input_file_id',
  'vector_store_ids',
  'container',
  'container_id',
  'tool_resources',
  'audio.id',
] as const

/**
 * Fields, beside `model`, by which some server chooses another model: LiteLLM's router, OpenRouter, servers
 * with adapters, tools that run a model of their own. `extra_body` counts only if it names a model. The script has the same list.
 */
export const choosingFields = [
  'adapter_id',
  'content_policy_fallbacks',
  'context_window_fallbacks',
  'custom_llm_provider',
  'deployment_id',
  'extra_body',
  'fallbacks',
  'lora',
  'lora_path',
  'model_group',
  'model_list',
  'models',
  'preset',
  'provider',
  'route',
  'specific_deployment',
  'tools[].model',
  'user_config',
] as const

export type ChoosingField = (typeof choosingFields)[number]
