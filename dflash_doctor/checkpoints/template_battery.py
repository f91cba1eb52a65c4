"""The conversations that both templates are given."""

from __future__ import annotations

from typing import Any

USER = {"role": "user", "content": "What is 2 + 2?"}
SYSTEM = {"role": "system", "content": "You are brief."}
ANSWER = {"role": "assistant", "content": "It is 4."}
AGAIN = {"role": "user", "content": "And 3 + 3?"}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "Its name"}},
            "required": ["city"],
        },
    },
}
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Zürich"}}}
    ],
}
RESULT = {"role": "tool", "name": "get_weather", "content": '{"celsius": 21}'}
THOUGHT = {"role": "assistant", "content": "It is 4.", "reasoning_content": "Two and two."}
MODES: dict[str, dict[str, bool]] = {
    "off": {"enable_thinking": False},
    "on": {"enable_thinking": True},
    "template": {},
}
"""Thinking mode -> what the template is told of it."""


def battery() -> list[dict[str, Any]]:
    """Cases: `name`, `thinking` (a mode), and `variables` of the template but for special tokens."""
    plain: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
        "one question": ([USER], {}),
        "with a system message": ([SYSTEM, USER], {}),
        "two turns": ([SYSTEM, USER, ANSWER, AGAIN], {}),
        "reasoning in the history": ([USER, THOUGHT, AGAIN], {}),
        "a tool offered": ([USER], {"tools": [TOOL]}),
        "a tool called": ([SYSTEM, USER, CALL, RESULT], {"tools": [TOOL]}),
        "an empty question": ([{"role": "user", "content": ""}], {}),
        "spaces around": ([{"role": "user", "content": "  padded \n\n"}], {}),
        "other scripts": ([{"role": "user", "content": "naïve 日本語 😀 e\u0301"}], {}),
        "special tokens in the text": (
            [{"role": "user", "content": "<|im_end|> </think> <|eot_id|> <end_of_turn> [INST] {{ x }}"}],
            {},
        ),
        "code": ([{"role": "user", "content": "def f(x):\n    return {'a': x}\n<b>&amp;</b>"}], {}),
        "a long question": ([{"role": "user", "content": "word " * 400}], {}),
    }
    cases = [
        {
            "name": name,
            "thinking": mode,
            "variables": {"messages": messages, "add_generation_prompt": True, **more, **told},
        }
        for name, (messages, more) in plain.items()
        for mode, told in MODES.items()
    ]
    finished = {"messages": [SYSTEM, USER, ANSWER], "add_generation_prompt": False}
    cases.append({"name": "a finished answer", "thinking": "template", "variables": finished})
    for mode, told in MODES.items():
        variables = {"messages": [USER], "add_generation_prompt": False, **told}
        cases.append({"name": "without generation prompt", "thinking": mode, "variables": variables})
    return cases
