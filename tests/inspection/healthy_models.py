"""Thirty models as their libraries initialize them: the rules were set on one half, the other was seen once."""

_GPT2 = {"n_layer": 4, "n_embd": 128, "n_head": 4, "n_positions": 64}
_BERT = {"num_hidden_layers": 4, "hidden_size": 128, "num_attention_heads": 4, "intermediate_size": 512}

TUNING = (
    ("timm/resnet18", {}),
    ("timm/vit_tiny_patch16_224", {}),
    ("timm/convnext_atto", {}),
    ("timm/efficientnet_b0", {}),
    ("timm/mixer_s32_224", {}),
    ("timm/regnetx_002", {}),
    ("timm/cait_xxs24_224", {}),
    ("torchvision/mobilenet_v2", {}),
    ("torchvision/squeezenet1_1", {}),
    ("torchvision/shufflenet_v2_x0_5", {}),
    ("torchvision/densenet121", {}),
    ("torchvision/swin_t", {}),
    ("hf/gpt2", _GPT2),
    ("hf/bert", _BERT),
    ("hf/llama", {**_BERT, "num_key_value_heads": 2}),
)
HELD_OUT = (
    ("timm/resnet26d", {}),
    ("timm/deit_tiny_distilled_patch16_224", {}),
    ("timm/poolformer_s12", {}),
    ("timm/mobilenetv3_small_050", {}),
    ("timm/levit_128s", {}),
    ("timm/resmlp_12_224", {}),
    ("timm/pvt_v2_b0", {}),
    ("torchvision/resnet18", {}),
    ("torchvision/mnasnet0_5", {}),
    ("torchvision/regnet_y_400mf", {}),
    ("torchvision/efficientnet_b0", {}),
    ("torchvision/convnext_tiny", {}),
    ("hf/vit", _BERT),
    ("hf/gpt_neox", _BERT),
    ("hf/qwen2", {**_BERT, "num_key_value_heads": 2}),
)
