#!/usr/bin/env python3
"""Writes the golden files of fesc-model's parity test with Hugging Face transformers' Mamba-2 (plain torch path).

Each case is a directory below crates/fesc-model/tests/golden: `config.json` and `model.safetensors` as
`save_pretrained` writes them, and `expected.safetensors` with the token ids, the output of every block, the final
normalised states and the logits. All weights are random and ours. The stored dtype may be f16 or bf16; what is
expected is always computed in f32 from the stored weights.

Needs no preparation: without transformers it makes a virtual environment (FESC_PARITY_VENV, default
`target/parity-venv`), installs requirements.txt from the package index and runs itself there.
"""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
OUT = ROOT / "crates" / "fesc-model" / "tests" / "golden"
LIMIT = 400_000  # bytes, all cases together


def run_in_venv():
    venv = pathlib.Path(os.environ.get("FESC_PARITY_VENV", ROOT / "target" / "parity-venv"))
    python = venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "-r", str(HERE / "requirements.txt")], check=True)
    os.execve(python, [str(python), __file__], dict(os.environ, FESC_PARITY_INSIDE="1"))


try:
    import torch
    from safetensors.torch import load_file, save_file
    from transformers import Mamba2Config, Mamba2ForCausalLM, Mamba2Model
except ImportError:
    if "FESC_PARITY_INSIDE" in os.environ:
        raise
    run_in_venv()

# One line per case: shapes are odd on purpose, chunk sizes do not divide lengths, and the last case has the decays
# of a real mamba2-130m (|A| from 0.0004 to 36,315), no `backbone.` prefix, and a classifier.
CASES = {
    "one-group-f32": dict(
        seed=1, length=17, dtype=torch.float32, kind="lm",
        config=dict(hidden_size=16, num_heads=4, head_dim=8, state_size=8, n_groups=1, conv_kernel=4,
                    num_hidden_layers=2, vocab_size=29, chunk_size=8, tie_word_embeddings=False)),
    "two-groups-odd-f32": dict(
        seed=2, length=23, dtype=torch.float32, kind="lm",
        config=dict(hidden_size=15, num_heads=6, head_dim=5, state_size=7, n_groups=2, conv_kernel=3,
                    num_hidden_layers=3, vocab_size=31, chunk_size=5, tie_word_embeddings=True,
                    time_step_limit=(0.01, 0.2), layer_norm_epsilon=1e-3)),
    "tied-bf16": dict(
        seed=3, length=33, dtype=torch.bfloat16, kind="lm",
        config=dict(hidden_size=24, num_heads=3, head_dim=16, state_size=16, n_groups=1, conv_kernel=4,
                    num_hidden_layers=2, vocab_size=37, chunk_size=16, tie_word_embeddings=True)),
    "real-decays-f16": dict(
        seed=4, length=41, dtype=torch.float16, kind="classifier",
        config=dict(hidden_size=20, num_heads=8, head_dim=5, state_size=6, n_groups=4, conv_kernel=2,
                    num_hidden_layers=2, vocab_size=23, chunk_size=256, num_labels=3)),
}


def disturb(model, real_decays):
    """No parameter stays at a neutral value: a norm of ones or a bias of zeros would hide an error."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("A_log"):
                low, high = (0.0004, 36315.0) if real_decays else (0.05, 16.0)
                p.copy_(torch.linspace(float(torch.tensor(low).log()), float(torch.tensor(high).log()), p.numel()))
            elif name.endswith("dt_bias"):
                p.copy_(torch.empty_like(p).uniform_(-6.0, -1.0))
            elif name.endswith(("norm.weight", "norm_f.weight", ".D")):
                p.copy_(1.0 + 0.3 * torch.randn_like(p))
            elif name.endswith("bias"):
                p.copy_(0.2 * torch.randn_like(p))
            elif "embeddings" in name or "lm_head" in name:
                p.copy_(torch.randn_like(p))
            else:
                fan_in = p[0].numel()
                p.copy_(torch.randn_like(p) / fan_in**0.5)


def make(name, case):
    torch.manual_seed(case["seed"])
    directory = OUT / name
    directory.mkdir(parents=True, exist_ok=True)
    config = Mamba2Config(**case["config"])
    classifier = case["kind"] == "classifier"
    model = (Mamba2Model if classifier else Mamba2ForCausalLM)(config).eval()
    disturb(model, real_decays=classifier)
    model.to(case["dtype"]).save_pretrained(directory)
    (directory / "generation_config.json").unlink(missing_ok=True)
    model = model.float()  # the stored, rounded weights, in f32

    head = {}
    if classifier:
        head["score.weight"] = torch.randn(config.num_labels, config.hidden_size).to(case["dtype"])
        head["score.bias"] = torch.randn(config.num_labels).to(case["dtype"])
        weights = load_file(directory / "model.safetensors")
        save_file(weights | head, directory / "model.safetensors", metadata={"format": "pt"})

    ids = torch.randint(0, config.vocab_size, (1, case["length"]))
    expected = {"ids": ids[0].to(torch.int32)}
    base = model if classifier else model.backbone

    def keep(index):
        def hook(_module, _inputs, output):
            expected[f"layer.{index}"] = output[0].float().contiguous().clone()
        return hook

    for index, block in enumerate(base.layers):
        block.register_forward_hook(keep(index))
    with torch.no_grad():
        out = base(ids, use_cache=False)
        expected["final"] = out.last_hidden_state[0].float().contiguous()
        if classifier:
            mean, last = expected["final"].mean(0), expected["final"][-1]
            for pooling, row in (("mean", mean), ("last", last)):
                expected[f"classes.{pooling}"] = head["score.weight"].float() @ row + head["score.bias"].float()
        else:
            expected["logits"] = model(ids, use_cache=False).logits[0].float().contiguous()
    save_file(expected, directory / "expected.safetensors")


def main():
    torch.set_num_threads(1)
    for name, case in CASES.items():
        make(name, case)
    size = sum(f.stat().st_size for f in OUT.rglob("*") if f.is_file())
    print(f"{len(CASES)} cases, {size} bytes in {OUT.relative_to(ROOT)}")
    if size > LIMIT:
        sys.exit(f"more than {LIMIT} bytes: make the shapes smaller")


main()
