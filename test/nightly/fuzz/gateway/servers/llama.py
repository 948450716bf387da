"""llama.cpp's own HTTP server (wheel xllamacpp) with a model of random weights.

Prints {"router": port} and serves until its input is closed. The model has one layer and a vocabulary of
single bytes. Its text is random, in the same format as that of a large model.
"""

import json
import os
import random
import struct
import sys
import tempfile

import xllamacpp

WIDTH, VOCABULARY = 32, 259
UINT32, FLOAT32, STRING, ARRAY, INT32 = 4, 6, 8, 9, 5
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def scalar(kind, value):
    if kind == STRING:
        return text(value)
    return struct.pack({UINT32: "<I", FLOAT32: "<f", INT32: "<i"}[kind], value)


def field(name, kind, value):
    return text(name) + struct.pack("<I", kind) + scalar(kind, value)


def array(name, kind, values):
    head = text(name) + struct.pack("<IIQ", ARRAY, kind, len(values))
    return head + b"".join(scalar(kind, value) for value in values)


def write_model(path):
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    kinds = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256
    fields = [
        field("general.architecture", STRING, "llama"),
        field("llama.block_count", UINT32, 1),
        field("llama.context_length", UINT32, 4096),
        field("llama.embedding_length", UINT32, WIDTH),
        field("llama.feed_forward_length", UINT32, WIDTH),
        field("llama.attention.head_count", UINT32, 2),
        field("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
        field("tokenizer.ggml.model", STRING, "llama"),
        field("tokenizer.ggml.bos_token_id", UINT32, 1),
        field("tokenizer.ggml.eos_token_id", UINT32, 2),
        field("tokenizer.ggml.unknown_token_id", UINT32, 0),
        array("tokenizer.ggml.tokens", STRING, tokens),
        array("tokenizer.ggml.scores", FLOAT32, [0.0] * VOCABULARY),
        array("tokenizer.ggml.token_type", INT32, kinds),
    ]
    square = [WIDTH, WIDTH]
    tensors = {"token_embd": [WIDTH, VOCABULARY], "output": [WIDTH, VOCABULARY], "output_norm": [WIDTH]}
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        tensors[f"blk.0.{name}"] = square
    tensors["blk.0.attn_norm"] = tensors["blk.0.ffn_norm"] = [WIDTH]
    source = random.Random(7)
    infos, data = b"", b""
    for name, shape in tensors.items():
        infos += text(f"{name}.weight") + struct.pack("<I", len(shape))
        infos += struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", 0, len(data))
        count = WIDTH * (shape[1] if len(shape) > 1 else 1)
        data += struct.pack(f"<{count}f", *(source.gauss(0, 1) for _ in range(count)))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields)) + b"".join(fields) + infos
    with open(path, "wb") as file:
        file.write(head + b"\0" * (-len(head) % 32) + data)


with tempfile.TemporaryDirectory() as folder:
    model = os.path.join(folder, "random.gguf")
    write_model(model)
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = 4096
    params.n_parallel = 4
    params.n_predict = 8
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.n_threads_http = 8
    params.warmup = False
    params.sampling.temp = 0.0
    server = xllamacpp.Server(params)
    port = int(server.listening_address.rsplit(":", 1)[1])
    print(json.dumps({"router": port}), flush=True)
    sys.stdin.read()
    os._exit(0)
