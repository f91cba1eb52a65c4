"""Chat templates written for the tests in four styles in use; the wording is our own."""

from __future__ import annotations

QWEN = """
{%- set shown_tools = tools or [] %}
{%- if shown_tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- 'Functions you can call, one JSON object a line:\\n<tools>' }}
    {%- for tool in shown_tools %}
        {{- '\\n' + (tool | tojson) }}
    {%- endfor %}
    {{- '\\n</tools>\\nAnswer with <tool_call>{\"name\": ...}</tool_call>.<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set place = namespace(last_question=-1) %}
{%- for message in messages[::-1] %}
    {%- set position = messages | length - 1 - loop.index0 %}
    {%- if message.role == 'user' and message.content is string %}
        {%- set place.last_question = position %}
        {%- break %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {%- set thought = '' %}
        {%- set answer = message.content %}
        {%- if message.reasoning_content is string %}
            {%- set thought = message.reasoning_content %}
        {%- elif '</think>' in message.content %}
            {%- set thought = message.content.split('</think>')[0].split('<think>')[-1].strip('\\n') %}
            {%- set answer = message.content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if loop.index0 > place.last_question and (thought or loop.last) %}
            {{- '<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- answer }}
        {%- for call in message.tool_calls or [] %}
            {%- if not loop.first or answer %}{{- '\\n' }}{%- endif %}
            {{- '<tool_call>\\n{\"name\": \"' + call.function.name + '\", \"arguments\": ' }}
            {{- call.function.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

LLAMA = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = strftime_now('%d %b %Y') if strftime_now is defined else '26 Jul 2024' %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set opening = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set opening = '' %}
{%- endif %}

{{- '<|start_header_id|>system<|end_header_id|>\\n\\n' }}
{%- if tools is not none %}
    {{- 'Environment: ipython\\n' }}
{%- endif %}
{{- 'Date of today: ' + date_string + '\\n\\n' }}
{{- opening }}
{{- '<|eot_id|>' }}

{#- Tools stand in front of the first question. #}
{%- if tools is not none %}
    {%- if messages | length == 0 %}
        {{- raise_exception('Tools need a user message to stand before') }}
    {%- endif %}
    {%- set question = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
    {{- '<|start_header_id|>user<|end_header_id|>\\n\\n' }}
    {{- 'Call one of these with {\"name\": ..., \"parameters\": ...}.\\n\\n' }}
    {%- for tool in tools %}
        {{- tool | tojson(indent=4) }}
        {{- '\\n\\n' }}
    {%- endfor %}
    {{- question + '<|eot_id|>' }}
{%- endif %}

{%- for message in messages %}
    {%- if message.role == 'tool' or message.role == 'ipython' %}
        {{- '<|start_header_id|>ipython<|end_header_id|>\\n\\n' }}
        {%- if message.content is mapping %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if message.tool_calls | length != 1 %}
            {{- raise_exception('One tool call at a time, please') }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
        {{- '{\"name\": \"' + call.name + '\", \"parameters\": ' }}
        {{- call.arguments | tojson }}
        {{- '}<|eot_id|>' }}
    {%- else %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
        {%- generation %}{{- message['content'] | trim }}{%- endgeneration %}
        {{- '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

GPT_OSS = """
{%- macro type_of(spec) -%}
    {%- if spec.type == 'array' -%}
        {{- type_of(spec['items']) }}[]
    {%- elif spec.enum is defined -%}
        {%- for one in spec.enum -%}{{- one | tojson }}{%- if not loop.last %} | {% endif %}{%- endfor -%}
    {%- else -%}
        {{- spec.type }}
    {%- endif -%}
{%- endmacro -%}
{%- macro functions(tools) -%}
    {{- '# Tools\\n\\nnamespace functions {\\n\\n' }}
    {%- for tool in tools %}
        {%- set tool = tool.function %}
        {{- '// ' + tool.description + '\\ntype ' + tool.name + ' = (_: {\\n' }}
        {%- for name, spec in tool.parameters.properties.items() %}
            {{- name + ('' if name in tool.parameters.required else '?') + ': ' + type_of(spec) + ',\\n' }}
        {%- endfor %}
        {{- '}) => any;\\n\\n' }}
    {%- endfor %}
    {{- '} // namespace functions' }}
{%- endmacro -%}
{%- if reasoning_effort is not defined %}
    {%- set reasoning_effort = 'medium' %}
{%- endif %}
{{- '<|start|>system<|message|>You are a model made for a test.\\nCurrent date: ' }}
{{- strftime_now('%Y-%m-%d') + '\\n\\nReasoning: ' + reasoning_effort + '\\n\\n' }}
{{- '# Valid channels: analysis, commentary, final.<|end|>' }}
{%- set instructions = messages[0].content if messages[0].role in ['developer', 'system'] else '' %}
{%- set rest = messages[1:] if messages[0].role in ['developer', 'system'] else messages %}
{%- if instructions or tools %}
    {{- '<|start|>developer<|message|>' }}
    {%- if instructions %}{{- '# Instructions\\n\\n' + instructions + '\\n\\n' }}{%- endif %}
    {%- if tools %}{{- functions(tools) }}{%- endif %}
    {{- '<|end|>' }}
{%- endif %}
{%- set last = namespace(tool=none) %}
{%- for message in rest -%}
    {%- if message.role == 'assistant' %}
        {%- if '<|channel|>' in message.content %}
            {{- raise_exception('Channels belong to the template, not into a message') }}
        {%- endif %}
        {%- if 'tool_calls' in message %}
            {%- set call = message.tool_calls[0].function %}
            {%- if message.reasoning_content %}
                {{- '<|start|>assistant<|channel|>analysis<|message|>' }}
                {{- message.reasoning_content + '<|end|>' }}
            {%- endif %}
            {{- '<|start|>assistant to=functions.' + call.name + '<|channel|>commentary json<|message|>' }}
            {{- call.arguments | tojson + '<|call|>' }}
            {%- set last.tool = call.name %}
        {%- else %}
            {%- set last.tool = none %}
            {{- '<|start|>assistant<|channel|>final<|message|>' + message.content }}
            {{- '<|return|>' if loop.last and not add_generation_prompt else '<|end|>' }}
        {%- endif %}
    {%- elif message.role == 'tool' -%}
        {%- if last.tool is none %}
            {{- raise_exception('A tool answered that nobody called') }}
        {%- endif %}
        {{- '<|start|>functions.' + last.tool + ' to=assistant<|channel|>commentary<|message|>' }}
        {{- message.content | tojson + '<|end|>' }}
    {%- else -%}
        {{- '<|start|>' + message.role + '<|message|>' + message.content + '<|end|>' }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
<|start|>assistant
{%- endif -%}
"""

GEMMA = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {{ raise_exception('No role for system messages here') }}
{%- endif -%}
{%- for message in messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception('User and assistant have to take turns') }}
    {%- endif -%}
    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
    {{ '<start_of_turn>' + role + '\\n' }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- else -%}
        {%- for part in message['content'] -%}{{ part['text'] | trim }}{%- endfor -%}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ '<start_of_turn>model\\n' }}
{%- endif -%}
"""

GEMMA_FOLDED = """{{ bos_token }}
{%- set before = messages[0]['content'] + '\\n\\n' if messages[0]['role'] == 'system' else '' -%}
{%- set turns = messages[1:] if messages[0]['role'] == 'system' else messages -%}
{%- for message in turns %}
    {{- '<start_of_turn>' ~ ('model' if message.role == 'assistant' else 'user') ~ '\\n' }}
    {{- before if loop.first else '' }}{{ message.content | trim }}{{ '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<start_of_turn>model\\n' }}
{%- endif %}
"""

STYLES = {
    "qwen": QWEN,
    "llama": LLAMA,
    "gpt-oss": GPT_OSS,
    "gemma": GEMMA,
    "gemma-folded": GEMMA_FOLDED,
}
