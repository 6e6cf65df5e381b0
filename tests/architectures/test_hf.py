"""Model types of transformers, by name."""

from __future__ import annotations

import socket

import pytest
import torch
import transformers
from small_gpt import next_token_loss
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from initbench.architectures import hf
from initbench.architectures.create import create_model
from initbench.errors import ArgumentError, UnknownNameError
from initbench.inputs import Inputs
from initbench.probes.gradient_quotient import gradient_quotient
from initbench.registry import ARCHITECTURES

VOCABULARY, CONTEXT = 19, 6
GPT2 = {"n_layer": 1, "n_embd": 8, "n_head": 2}
SMALL = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24}
VIT = SMALL | {"patch_size": 4}


def language_model(name, *, context=CONTEXT, vocabulary=VOCABULARY, **arguments):
    return create_model(f"hf/{name}", inputs=Inputs((context,), vocabulary), num_classes=vocabulary, **arguments)


def tokens(samples=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randint(VOCABULARY, (samples, CONTEXT), generator=generator) for _ in range(2))


def test_published_numbers_of_parameters():
    # GPT-2 small; LLaMA 7B; BERT base as a language model; ViT-B/16 with 1,000 classes.
    with torch.device("meta"):
        gpt2 = language_model("gpt2", context=1024, vocabulary=50257)
        llama = language_model("llama", context=2048, vocabulary=32000)
        vit = create_model("hf/vit", input_shape=(3, 224, 224), num_classes=1000)
    numbers = [sum(p.numel() for p in model.parameters()) for model in (gpt2, llama, vit)]
    assert numbers == [124_439_808, 6_738_415_616, 86_567_656]


def test_it_is_the_model_of_transformers_at_the_same_draws():
    model = language_model("gpt2", **GPT2, seed=5).eval()
    configuration = transformers.GPT2Config(vocab_size=VOCABULARY, **GPT2)
    theirs = transformers.GPT2LMHeadModel(configuration).eval()
    theirs.load_state_dict(model.state_dict())
    inputs, _ = tokens()
    assert torch.equal(model(inputs).logits, theirs(inputs).logits)
    again, other = (language_model("gpt2", **GPT2, seed=seed).transformer.wte.weight for seed in (5, 6))
    assert torch.equal(again, model.transformer.wte.weight)
    assert not torch.equal(other, again)


@pytest.mark.parametrize(
    ("name", "arguments"), [("gpt2", GPT2), ("llama", SMALL), ("bert", SMALL), ("opt", {"ffn_dim": 8})]
)
def test_language_models_are_causal_and_every_token_is_learned(name, arguments):
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2} if name == "opt" else {}
    model = language_model(name, **sizes | arguments)
    assert model.training
    model.eval()
    inputs, targets = tokens()
    changed = inputs.clone()
    changed[:, -1] = (changed[:, -1] + 1) % VOCABULARY
    logits, others = model(inputs).logits, model(changed).logits
    assert logits.shape == (3, CONTEXT, VOCABULARY)
    torch.testing.assert_close(logits[:, :-1], others[:, :-1])
    assert not torch.allclose(logits[:, -1], others[:, -1])
    # The configurations' token for padding, whose embedding gets no gradient, is one of the data's.
    next_token_loss(logits, targets).backward()
    gradient = model.get_input_embeddings().weight.grad
    assert [bool(gradient[token].abs().sum() > 0) for token in inputs.unique()] == [True] * len(inputs.unique())


def test_a_model_that_looks_ahead_is_refused(monkeypatch):
    """BERT is bidirectional unless it is told otherwise: this is what would happen then."""
    monkeypatch.setattr(hf, "_of_text", lambda *_: {"vocab_size": VOCABULARY})
    with pytest.raises(
        ArgumentError, match=r"^hf/bert is not a causal language model: its logits depend on later tokens$"
    ):
        language_model("bert", **SMALL)


@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 8, 12)])
def test_image_classifiers_are_built_for_the_images(shape):
    model = create_model("hf/vit", input_shape=shape, num_classes=7, **VIT)
    assert model(torch.zeros(2, *shape)).logits.shape == (2, 7)
    embeddings = model.vit.embeddings
    assert embeddings.position_embeddings.shape == (1, 1 + shape[1] * shape[2] // 16, 16)
    assert embeddings.patch_embeddings.projection.in_channels == shape[0]


def test_of_several_classes_for_a_type_the_first_is_built():
    """transformers has two classes for DeiT: this one, and one with a teacher."""
    model = create_model("hf/deit", input_shape=(3, 8, 8), num_classes=7, **VIT)
    assert type(model).__name__ == "DeiTForImageClassification"
    assert model(torch.zeros(2, 3, 8, 8)).logits.shape == (2, 7)


def test_nothing_is_asked_of_the_network(monkeypatch):
    def refuse(*_args, **_options):
        raise AssertionError("a network call")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    language_model("gpt2", **GPT2)
    create_model("hf/vit", input_shape=(3, 8, 8), **VIT)
    create_model("hf/resnet", depths=[1, 1, 1, 1], hidden_sizes=[8, 8, 8, 8], embedding_size=8)


def test_second_derivatives_are_those_of_finite_differences():
    """The gradient quotient's Hessian-vector product, on a model whose attention is PyTorch's fused one."""
    model = language_model("gpt2", **GPT2).double().eval()
    assert model.config._attn_implementation == "sdpa"
    inputs, targets = tokens()
    named = {name: p.detach() for name, p in model.named_parameters()}

    def gradient(values):
        leaves = {name: value.requires_grad_() for name, value in values.items()}
        with sdpa_kernel(SDPBackend.MATH):
            loss = next_token_loss(functional_call(model, leaves, (inputs,)).logits, targets)
        return torch.autograd.grad(loss, [*leaves.values()])

    g = gradient({name: p.clone() for name, p in named.items()})
    step = 1e-4
    ahead, behind = (
        gradient({name: p + sign * step * d for (name, p), d in zip(named.items(), g, strict=True)}) for sign in (1, -1)
    )
    flat, product = (
        torch.cat([d.flatten() for d in g]),
        torch.cat([((a - b) / (2 * step)).flatten() for a, b in zip(ahead, behind, strict=True)]),
    )
    eps = torch.where(flat >= 0, 1e-5, -1e-5).double()
    expected = (((flat - product) / (flat + eps)) - 1).abs().mean()
    found = gradient_quotient(model, inputs, targets, next_token_loss)
    # Central differences of step 1e-4 err by its square times a third derivative, over gradients of about 1e-3.
    assert found.item() == pytest.approx(expected.item(), rel=1e-4)


@pytest.mark.parametrize(
    ("name", "inputs", "arguments", "message"),
    [
        ("gpt2", Inputs((6,), 19), {"n_layers": 1}, "n_layers is an unknown key (did you mean 'n_layer'?)"),
        ("gpt2", Inputs((6,), 19), {"vocab_size": 9}, "vocab_size is an unknown key (valid: "),
        ("gpt2", Inputs((6,), 19), {"n_layer": "1"}, "n_layer must be an integer, got '1'"),
        ("gpt2", Inputs((6,), 19), {"n_embd": 9, "n_head": 2}, "hf/gpt2 cannot be built: "),
        (
            "gpt2",
            Inputs((2048,), 19),
            GPT2,
            "n_positions of hf/gpt2 must be at least the context of the data, 2048, got 1024",
        ),
        ("vit", Inputs((6,), 19), {}, "inputs are 6 tokens of 19, and hf/vit is no causal language model"),
        ("gpt2", Inputs((3, 8, 8)), {}, "inputs are 3×8×8, and hf/gpt2 is no image classifier"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(name, inputs, arguments, message):
    with pytest.raises(ArgumentError) as refusal:
        create_model(f"hf/{name}", inputs=inputs, num_classes=inputs.vocabulary or 10, **arguments)
    assert str(refusal.value).startswith(message)
    assert "\n" not in str(refusal.value)


def test_a_member_serves_its_own_tasks_and_has_the_arguments_of_its_configuration():
    gpt2, vit = ARCHITECTURES.get("hf/gpt2"), ARCHITECTURES.get("hf/vit")
    assert gpt2.traits.tasks == ("language_modelling",)
    assert vit.traits.tasks == ("classification",)
    arguments = {a.name: (a.type, a.default) for a in gpt2.arguments}
    assert arguments["n_layer"] == ("int", 12)
    assert arguments["n_inner"] == ("int | null", None)
    assert {"vocab_size", "use_cache", "bos_token_id", "id2label"}.isdisjoint(arguments)


def test_an_unknown_model_type_gives_the_nearest():
    with pytest.raises(UnknownNameError, match=r"^unknown architecture 'hf/gtp2' \(did you mean 'hf/gpt2'\?\)$"):
        create_model("hf/gtp2")
