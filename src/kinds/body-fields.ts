/** Fields of a request's body that are refused unless a ModelRef opens them. */

/**
 * Fields that name something stored in the account at the model's server: responses, conversations, files, containers,
 * caches. `item_reference` is an item of the input that is only an id, or an image or a reasoning without its data;
 * `audio.id` an earlier answer with sound. envoy/lua/request-body.lua has the places in which the APIs define them.
 */
export const storedFields = [
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
  'cached_content',
  'collection_ids',
  'file_search_store_names',
  'library_ids',
  'skill_id',
] as const

/**
 * Fields besides `model` with which some server chooses another model: LiteLLM's router, OpenRouter, other model
 * gateways, servers with adapters, tools that run a model of their own; and those with which LiteLLM calls its provider
 * with other credentials or headers. `extra_body` counts only if it has one of them, or `model`. The script has the
 * same list.
 */
export const modelChoosingFields = [
  'adapter_id',
  'api_base',
  'api_key',
  'base_url',
  'compound_custom',
  'content_policy_fallbacks',
  'context_window_fallbacks',
  'custom_llm_provider',
  'deployment_id',
  'extra_body',
  'extra_headers',
  'fallbacks',
  'headers',
  'litellm_credential_name',
  'lora',
  'lora_path',
  'model_group',
  'model_list',
  'models',
  'organization',
  'plugins',
  'preset',
  'prompt_id',
  'provider',
  'provider_specific_header',
  'providerOptions',
  'route',
  'router_settings_override',
  'safety_model',
  'specific_deployment',
  'tools[].model',
  'user_config',
] as const

/**
 * Fields with which the servers of one model exchange whose memory to read, and at which address: vLLM, SGLang,
 * TensorRT-LLM. A caller who sends one could read other callers' requests. The script has the same list.
 */
export const internalFields = [
  'bootstrap_host',
  'bootstrap_port',
  'bootstrap_room',
  'disaggregated_params',
  'ec_transfer_params',
  'kv_transfer_params',
] as const

/** The fields that a ModelRef opens one by one. */
export const openableFields = [...modelChoosingFields, ...internalFields] as const
