"""Chat templates in the manner of well-known families, written for these tests."""

from __future__ import annotations

CHATML = """\
{%- if tools %}
{{- '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{% endif %}
{{- 'Functions:' }}
{%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{% endfor %}
{{- '<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(last=messages|length - 1) %}
{%- for message in messages %}
{%- if loop.first and message.role == 'system' %}{% continue %}{% endif %}
{%- if message.role == 'assistant' %}
{{- '<|im_start|>assistant\\n' }}
{%- if message.reasoning_content is defined and loop.index0 == ns.last %}
{{- '<think>\\n' + message.reasoning_content.strip('\\n') + '\\n</think>\\n\\n' }}
{%- endif %}
{%- generation %}{{- message.content }}{% endgeneration %}
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>\\n' }}{{- call.function | tojson }}{{- '\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- elif message.role == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
{%- else %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}
{{- '<think>\\n\\n</think>\\n\\n' }}
{%- endif %}
{%- endif %}
"""
"""Qwen3's manner: ChatML, tools, a thinking switch whose off position adds an empty block."""

HEADERS = """\
{{- bos_token }}
{%- set date = strftime_now('%d %b %Y') %}
{%- if messages[0]['role'] == 'system' %}
  {%- set system = messages[0]['content'] | trim %}
  {%- set rest = messages[1:] %}
{%- else %}
  {%- set system = '' %}
  {%- set rest = messages %}
{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\nToday: ' ~ date ~ '\\n\\n' ~ system }}
{%- if tools is not none %}
{%- for tool in tools %}{{ '\\n' ~ tool | tojson(indent=4) }}{% endfor %}
{%- endif %}
{{- '<|eot_id|>' }}
{%- for message in rest %}
{%- if message.tool_calls is defined %}
{%- if message.tool_calls | length != 1 %}{{ raise_exception('one call at a time') }}{% endif %}
{%- set call = message.tool_calls[0].function %}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{{- {'name': call.name, 'parameters': call.arguments} | tojson }}<|eot_id|>
{%- else %}
{%- set role = 'ipython' if message.role == 'tool' else message.role %}
{{- '<|start_header_id|>' ~ role ~ '<|end_header_id|>\\n\\n' ~ message['content'] | trim ~ '<|eot_id|>' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}
"""
"""Llama 3.1's manner: header ids, today's date, trimmed content."""

CHANNELS = """\
{%- macro described(schema) %}
{%- for name, value in schema.properties.items() %}
{{- name }}: {{ value.type }}{% if value.description %} // {{ value.description }}{% endif %}
{{- ', ' if not loop.last }}
{%- endfor %}
{%- endmacro %}
{{- '<|start|>system<|message|>Reasoning: ' ~ (reasoning_effort | default('medium')) }}
{{- '\\nDate: ' ~ strftime_now('%Y-%m-%d') ~ '<|end|>' }}
{%- for message in messages %}
{%- if message.role == 'system' %}
{{- '<|start|>developer<|message|>' ~ message.content ~ '<|end|>' }}
{%- elif message.role == 'assistant' %}
{%- if message.tool_calls %}
{%- for call in message.tool_calls %}
{{- '<|start|>assistant to=' ~ call.function.name ~ '<|channel|>commentary<|message|>' }}
{{- call.function.arguments | tojson }}{{ '<|call|>' }}
{%- endfor %}
{%- else %}
{{- '<|start|>assistant<|channel|>final<|message|>' ~ message.content ~ '<|end|>' }}
{%- endif %}
{%- elif message.role == 'tool' %}
{{- '<|start|>' ~ message.name ~ '<|message|>' ~ message.content ~ '<|end|>' }}
{%- else %}
{{- '<|start|>user<|message|>' ~ message.content ~ '<|end|>' }}
{%- endif %}
{%- endfor %}
{%- if tools %}{%- for tool in tools %}
{{- '<|start|>developer<|message|>' ~ tool.function.name }}
{{- '(' ~ described(tool.function.parameters) ~ ')<|end|>' }}
{%- endfor %}{% endif %}
{%- if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}
"""
"""gpt-oss's manner: channels, reasoning effort, macros."""

TURNS = """\
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{%- for message in messages %}
{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
{%- endif %}
{%- set role = 'model' if message['role'] == 'assistant' else message['role'] %}
{{- '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}
"""
"""Gemma's manner: no system role, strict turns."""

STYLES = {"chatml": CHATML, "headers": HEADERS, "channels": CHANNELS, "turns": TURNS}
