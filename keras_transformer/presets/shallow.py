"""Deep encoders with shallow decoders, which decode faster.

Kasai et al. 2021 (arXiv 2006.10369): an encoder runs once for a sentence, a
decoder once for each token, so that layers are cheaper in the encoder.

python -m trainers.wmt --preset=base-12-1 --dataset=wmt14_translate/de-en \
    --source_language=en --target_language=de --model_dir=runs/base-12-1

The authors train on a larger model's translations; --init_layers_from starts
from the layers of a model with another number of layers.
"""

from keras_transformer.presets.paper import BASE
from keras_transformer.presets.small import TINY

# The authors' 12 and 1 layers of base's widths: about as many weights as base.
BASE_12_1 = BASE | {"num_layers": 12, "num_decoder_layers": 1}

# In between, with base's encoder.
BASE_6_2 = BASE | {"num_layers": 6, "num_decoder_layers": 2}

# The same for the default preset, which has 2 and 2.
TINY_4_1 = TINY | {"num_layers": 4, "num_decoder_layers": 1}
TINY_2_1 = TINY | {"num_layers": 2, "num_decoder_layers": 1}
