"""Classes that people write on BERT, as they stand in public code for transformers.

Only the first import names the library: tests/test_own_classes.py runs this file a second time with
transformers in its place. Every `forward` returns (loss, scores).
"""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minibert import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    BertPreTrainedModel,
)


class LinearTagger(BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.bert = BertModel(config, add_pooling_layer=False)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, self.num_labels)
        self.init_weights()

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, labels=None):
        outputs = self.bert(input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        logits = self.classifier(self.dropout(outputs[0]))
        active = attention_mask.view(-1) == 1
        loss = nn.CrossEntropyLoss()(
            logits.view(-1, self.num_labels)[active], labels.view(-1)[active]
        )
        return loss, logits


class LSTMTagger(BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config)
        self.lstm = nn.LSTM(
            config.hidden_size, config.hidden_size // 2, batch_first=True, bidirectional=True
        )
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(self, input_ids, attention_mask, token_type_ids=None, labels=None):
        states = self.bert(input_ids, attention_mask, token_type_ids).last_hidden_state
        rows = nn.utils.rnn.pack_padded_sequence(
            states, attention_mask.sum(1).cpu(), batch_first=True, enforce_sorted=False
        )
        states, _ = nn.utils.rnn.pad_packed_sequence(
            self.lstm(rows)[0], batch_first=True, total_length=input_ids.shape[1]
        )
        logits = self.classifier(states)
        return F.cross_entropy(logits.transpose(1, 2), labels), logits


class CRF(nn.Module):
    def __init__(self, num_tags):
        super().__init__()
        self.start = nn.Parameter(torch.empty(num_tags))
        self.end = nn.Parameter(torch.empty(num_tags))
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)

    def forward(self, emissions, tags, mask):
        rows = torch.arange(len(tags))
        score = self.start[tags[:, 0]] + emissions[rows, 0, tags[:, 0]]
        total = self.start + emissions[:, 0]
        for i in range(1, tags.shape[1]):
            step = self.transitions[tags[:, i - 1], tags[:, i]] + emissions[rows, i, tags[:, i]]
            score = score + step * mask[:, i]
            following = torch.logsumexp(
                total[:, :, None] + self.transitions + emissions[:, i, None], dim=1
            )
            total = torch.where(mask[:, i, None].bool(), following, total)
        last = tags[rows, mask.sum(1) - 1]
        return (torch.logsumexp(total + self.end, dim=1) - score - self.end[last]).mean()


class CRFTagger(BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.position_wise_ff = nn.Linear(config.hidden_size, config.num_labels)
        self.crf = CRF(config.num_labels)
        self.init_weights()

    def forward(self, input_ids, attention_mask, token_type_ids=None, labels=None):
        sequence_output, _ = self.bert(input_ids, attention_mask, token_type_ids, return_dict=False)
        emissions = self.position_wise_ff(self.dropout(sequence_output))
        return self.crf(emissions, labels, attention_mask), emissions


class SpanPointer(BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.start_fc = nn.Linear(config.hidden_size, config.num_labels)
        self.end_fc = nn.Sequential(
            nn.Linear(config.hidden_size + config.num_labels, config.hidden_size),
            nn.Tanh(),
            nn.LayerNorm(config.hidden_size),
            nn.Linear(config.hidden_size, config.num_labels),
        )
        self.init_weights()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        states = self.bert(input_ids, attention_mask, token_type_ids)[0]
        start = self.start_fc(states)
        end = self.end_fc(torch.cat([states, start.softmax(-1)], dim=-1))
        loss = sum(F.cross_entropy(x.flatten(0, 1), labels.flatten()) for x in (start, end)) / 2
        return loss, torch.stack([start, end])


class SpanWidths(BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config)
        self.width_embedding = nn.Embedding(4, 6)
        self.ner_classifier = nn.ModuleList(
            [nn.Linear(2 * config.hidden_size + 6, 12), nn.Linear(12, config.num_labels)]
        )
        self.init_weights()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        states = self.bert(input_ids, attention_mask, token_type_ids)[0]
        length = states.shape[1]
        spans = [(i, j) for i in range(length) for j in range(i, min(i + 3, length))]
        starts, ends = torch.tensor(spans).T
        widths = self.width_embedding(ends - starts + 1).expand(len(states), -1, -1)
        x = torch.cat([states[:, starts], states[:, ends], widths], dim=-1)
        logits = self.ner_classifier[1](torch.relu(self.ner_classifier[0](x)))
        return F.cross_entropy(logits.flatten(0, 1), labels[:, starts].flatten()), logits


class MeanPooled(BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config)
        self.fc = nn.Linear(config.hidden_size, config.num_labels)
        self.init_weights()

    def forward(self, input_ids, attention_mask, token_type_ids=None, labels=None):
        states = self.bert(input_ids=input_ids, attention_mask=attention_mask)["last_hidden_state"]
        mask = attention_mask.unsqueeze(-1).expand(states.size()).float()
        pooled = torch.sum(states * mask, 1) / torch.clamp(mask.sum(1), min=1e-9)
        logits = self.fc(pooled)
        return F.cross_entropy(logits, labels[:, 0]), logits


class MeanMaxPooled(nn.Module):
    """A plain module around a loaded encoder, as in most notebooks of competitions."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.model = BertModel(config)
        self.head = nn.Linear(config.hidden_size * 2, config.num_labels)
        self._init_weights(self.head)

    def _init_weights(self, module):
        module.weight.data.normal_(mean=0.0, std=self.config.initializer_range)
        module.bias.data.zero_()

    def forward(self, labels=None, **inputs):
        states = self.model(**inputs).last_hidden_state
        mean, (largest, _) = states.mean(1), states.max(1)
        logits = self.head(torch.cat((mean, largest), 1))
        return F.cross_entropy(logits, labels[:, 0]), logits


class AttentionPooled(BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.attention = nn.Sequential(
            nn.Linear(config.hidden_size, 16), nn.Tanh(), nn.Linear(16, 1), nn.Softmax(dim=1)
        )
        self.regressor = nn.Sequential(nn.Linear(config.hidden_size, 1))
        self.post_init()

    def forward(self, input_ids, attention_mask, token_type_ids=None, labels=None):
        states = self.bert(input_ids, attention_mask, output_hidden_states=True).hidden_states[-1]
        context = torch.sum(self.attention(states) * states, dim=1)
        score = self.regressor(context).squeeze(-1)
        return torch.sqrt(nn.MSELoss()(score, labels[:, 0].float())), score


class LastFourLayers(BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        config.output_hidden_states = True
        self.bert = BertModel(config)
        self.classifier = nn.Linear(config.hidden_size * 4, config.num_labels)
        self.init_weights()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        hidden_states = self.bert(input_ids, attention_mask, token_type_ids)[2]
        pooled = torch.cat([hidden_states[i] for i in (-1, -2, -3, -4)], dim=-1)[:, 0]
        logits = self.classifier(pooled)
        return F.cross_entropy(logits, labels[:, 0]), logits


class ScalarMix(BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config)
        self.layer_weights = nn.Parameter(torch.tensor([0.0] * (config.num_hidden_layers + 1)))
        self.gamma = nn.Parameter(torch.ones(1))
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.init_weights()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        outputs = self.bert(
            input_ids, attention_mask, token_type_ids, output_hidden_states=True, return_dict=True
        )
        states = torch.stack(outputs.hidden_states)
        mixed = self.gamma * (self.layer_weights.softmax(0).view(-1, 1, 1, 1) * states).sum(0)
        logits = self.classifier(mixed)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten()), logits


class TextCNN(BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config)
        self.convs = nn.ModuleList(nn.Conv2d(1, 5, (k, config.hidden_size)) for k in (2, 3))
        self.fc_cnn = nn.Linear(10, config.num_labels)
        self.init_weights()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        x = self.bert(input_ids, attention_mask, token_type_ids)[0].unsqueeze(1)
        pooled = [F.relu(conv(x)).squeeze(3).max(dim=2).values for conv in self.convs]
        logits = self.fc_cnn(torch.cat(pooled, 1))
        return F.cross_entropy(logits, labels[:, 0]), logits


class GRUHead(BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config)
        self.gru = nn.GRU(config.hidden_size, 7, num_layers=2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(14, config.num_labels)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        _, hidden = self.gru(self.bert(input_ids, attention_mask, token_type_ids)[0])
        logits = self.out(torch.cat((hidden[-2], hidden[-1]), dim=1))
        return F.cross_entropy(logits, labels[:, 0]), logits


class MultiSampleDropout(BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config)
        self.dropouts = nn.ModuleList([nn.Dropout(0.5) for _ in range(5)])
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.init_weights()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        pooled = self.bert(input_ids, attention_mask, token_type_ids).pooler_output
        logits = sum(self.classifier(dropout(pooled)) for dropout in self.dropouts) / 5
        return F.cross_entropy(logits, labels[:, 0]), logits


class FCLayer(nn.Module):
    def __init__(self, input_dim, output_dim, dropout_rate=0.0, use_activation=True):
        super().__init__()
        self.use_activation = use_activation
        self.dropout = nn.Dropout(dropout_rate)
        self.linear = nn.Linear(input_dim, output_dim)

    def forward(self, x):
        x = self.dropout(x)
        return self.linear(torch.tanh(x) if self.use_activation else x)


class RBERT(BertPreTrainedModel):
    """Relations of two marked entities (Wu and He 2019)."""

    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config=config)
        self.num_labels = config.num_labels
        self.cls_fc_layer = FCLayer(config.hidden_size, config.hidden_size)
        self.entity_fc_layer = FCLayer(config.hidden_size, config.hidden_size)
        self.label_classifier = FCLayer(
            config.hidden_size * 3, config.num_labels, use_activation=False
        )

    @staticmethod
    def entity_average(hidden_output, e_mask):
        lengths = e_mask.sum(dim=1).unsqueeze(1)
        return torch.bmm(e_mask.unsqueeze(1).float(), hidden_output).squeeze(1) / lengths

    def forward(self, input_ids, attention_mask, token_type_ids=None, labels=None):
        outputs = self.bert(input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        masks = torch.zeros(2, *input_ids.shape)
        masks[0, :, 1:2] = masks[1, :, 2:4] = 1
        entities = [self.entity_fc_layer(self.entity_average(outputs[0], m)) for m in masks]
        logits = self.label_classifier(
            torch.cat([self.cls_fc_layer(outputs[1]), *entities], dim=-1)
        )
        return nn.CrossEntropyLoss()(logits.view(-1, self.num_labels), labels[:, 0]), logits


class EntityStart(BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.layer_norm = nn.LayerNorm(config.hidden_size * 2)
        self.classifier = nn.Linear(config.hidden_size * 2, config.num_labels)
        self.init_weights()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        states = self.bert(input_ids, attention_mask=attention_mask)[0]
        starts = torch.tensor([[1, 2]] * len(input_ids))
        index = starts[:, :, None].expand(-1, -1, states.shape[-1])
        logits = self.classifier(self.layer_norm(states.gather(1, index).flatten(1)))
        return F.cross_entropy(logits, labels[:, 0]), logits


class MultiTask(BertPreTrainedModel):
    """Intents and slots (JointBERT)."""

    def __init__(self, config, slot_loss_coef=1.0):
        super().__init__(config)
        self.slot_loss_coef = slot_loss_coef
        self.bert = BertModel(config=config)
        self.intent_classifier = FCLayer(config.hidden_size, 3, use_activation=False)
        self.slot_classifier = FCLayer(config.hidden_size, config.num_labels, use_activation=False)

    def forward(self, input_ids, attention_mask, token_type_ids=None, labels=None):
        outputs = self.bert(input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        intents, slots = self.intent_classifier(outputs[1]), self.slot_classifier(outputs[0])
        loss = F.cross_entropy(intents, labels[:, 0])
        loss = loss + self.slot_loss_coef * F.cross_entropy(slots.flatten(0, 1), labels.flatten())
        return loss, (torch.cat([intents.flatten(), slots.flatten()]))


class Siamese(BertPreTrainedModel):
    """Differences of two sentence vectors (Reimers and Gurevych 2019)."""

    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config)
        self.classifier = nn.Linear(config.hidden_size * 3, config.num_labels)
        self.init_weights()

    def encode(self, input_ids, attention_mask):
        return self.bert(input_ids, attention_mask)[0].mean(1)

    def forward(self, input_ids, attention_mask, token_type_ids=None, labels=None):
        u = self.encode(input_ids, attention_mask)
        v = self.encode(input_ids.flip(0), attention_mask.flip(0))
        logits = self.classifier(torch.cat([u, v, torch.abs(u - v)], dim=-1))
        return F.cross_entropy(logits, labels[:, 0]), logits


class DualEncoder(BertPreTrainedModel):
    """Questions and passages with an encoder each (DPR)."""

    def __init__(self, config):
        super().__init__(config)
        self.question_encoder = BertModel(config)
        self.ctx_encoder = BertModel(config)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        q = self.question_encoder(input_ids, attention_mask).pooler_output
        p = self.ctx_encoder(input_ids.flip(1), attention_mask.flip(1)).pooler_output
        scores = q @ p.T
        return F.nll_loss(F.log_softmax(scores, dim=1), torch.arange(len(scores))), scores


class TiedTowers(nn.Module):
    """One encoder under two names."""

    def __init__(self, config):
        super().__init__()
        self.query_model = BertModel(config)
        self.passage_model = self.query_model

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        q = F.normalize(self.query_model(input_ids, attention_mask)[0][:, 0], dim=-1)
        p = F.normalize(self.passage_model(input_ids.flip(1))[0][:, 0], dim=-1)
        scores = q @ p.T / 0.05
        return F.cross_entropy(scores, torch.arange(len(scores))), scores


class MLPLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = nn.Tanh()

    def forward(self, features, **kwargs):
        return self.activation(self.dense(features))


class SimCSE(BertPreTrainedModel):
    """Dropout as augmentation (Gao et al. 2021)."""

    def __init__(self, config, *model_args, **model_kargs):
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.mlp = MLPLayer(config)
        self.init_weights()

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, labels=None):
        twice = [x.repeat_interleave(2, dim=0) for x in (input_ids, attention_mask)]
        outputs = self.bert(*twice, output_hidden_states=False, return_dict=True)
        z = self.mlp(outputs.last_hidden_state[:, 0]).view(len(input_ids), 2, -1)
        sim = F.cosine_similarity(z[:, 0].unsqueeze(1), z[:, 1].unsqueeze(0), dim=-1) / 0.05
        return nn.CrossEntropyLoss()(sim, torch.arange(sim.size(0))), sim


class Triplets(BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config)
        self.projection = nn.Linear(config.hidden_size, 8, bias=False)
        self.loss_fct = nn.TripletMarginLoss(margin=1.0)
        self.init_weights()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        anchor = self.projection(self.bert(input_ids, attention_mask).pooler_output)
        positive = self.projection(self.bert(input_ids.flip(1)).pooler_output)
        negative = self.projection(self.bert(input_ids.flip(0)).pooler_output)
        return self.loss_fct(anchor, positive, negative), anchor


class RDrop(BertForSequenceClassification):
    """Two passes with dropout agree (Liang et al. 2021)."""

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, labels=None):
        one = super().forward(input_ids, attention_mask=attention_mask, labels=labels[:, 0])
        two = super().forward(input_ids, attention_mask=attention_mask, labels=labels[:, 0])
        p, q = F.log_softmax(one.logits, dim=-1), F.log_softmax(two.logits, dim=-1)
        kl = F.kl_div(p, q.exp(), reduction="sum") + F.kl_div(q, p.exp(), reduction="sum")
        return one.loss + two.loss + kl / 4, one.logits


class LabelSmoothed(BertForTokenClassification):
    def __init__(self, config):
        super().__init__(config)
        self.loss_fct = nn.CrossEntropyLoss(label_smoothing=0.1, ignore_index=-100)

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, labels=None):
        logits = super().forward(input_ids, attention_mask, token_type_ids).logits
        return self.loss_fct(logits.view(-1, self.num_labels), labels.view(-1)), logits


class WeightedLoss(BertForSequenceClassification):
    def __init__(self, config):
        super().__init__(config)
        self.register_buffer("class_weights", torch.arange(1.0, config.num_labels + 1))

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, labels=None):
        outputs = self.bert(input_ids, attention_mask=attention_mask)
        logits = self.classifier(self.dropout(outputs[1]))
        return F.cross_entropy(logits, labels[:, 0], weight=self.class_weights), logits


class FocalLoss(BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.bert = BertModel(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.init_weights()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        logits = self.classifier(self.bert(input_ids, attention_mask)[1])
        targets = F.one_hot(labels[:, 0], self.num_labels).float()
        bce = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        return ((1 - torch.exp(-bce)) ** 2 * bce).mean(), logits


class FrozenEncoder(BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config)
        for param in self.bert.parameters():
            param.requires_grad = False
        self.fc1 = nn.Linear(config.hidden_size, 20)
        self.fc2 = nn.Linear(20, config.num_labels)
        self.softmax = nn.LogSoftmax(dim=1)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        _, cls_hs = self.bert(input_ids, attention_mask=attention_mask, return_dict=False)
        scores = self.softmax(self.fc2(F.relu(self.fc1(cls_hs))))
        return F.nll_loss(scores, labels[:, 0]), scores


class BiasOnly(BertForSequenceClassification):
    """BitFit (Ben-Zaken et al. 2021)."""

    def __init__(self, config):
        super().__init__(config)
        for name, param in self.bert.named_parameters():
            param.requires_grad = "bias" in name

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, labels=None):
        outputs = super().forward(input_ids, attention_mask, labels=labels[:, 0])
        return outputs["loss"], outputs["logits"]


class FrozenLayers(BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config)
        for layer in self.bert.encoder.layer[:2]:
            for param in layer.parameters():
                param.requires_grad_(False)
        self.bert.embeddings.requires_grad_(False)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.init_weights()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        logits = self.classifier(self.bert(input_ids, attention_mask)[0][:, 0, :])
        return F.cross_entropy(logits, labels[:, 0]), logits


class EarlyExits(BertPreTrainedModel):
    """A classifier after every layer (DeeBERT)."""

    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config)
        self.highways = nn.ModuleList(
            nn.Sequential(
                nn.Linear(config.hidden_size, config.hidden_size),
                nn.Tanh(),
                nn.Linear(config.hidden_size, config.num_labels),
            )
            for _ in range(config.num_hidden_layers)
        )
        self.init_weights()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        states = self.bert(input_ids, attention_mask, output_hidden_states=True)[2][1:]
        logits = torch.stack([head(h[:, 0]) for head, h in zip(self.highways, states, strict=True)])
        return sum(F.cross_entropy(x, labels[:, 0]) for x in logits), logits


class Distilled(BertForSequenceClassification):
    """A student with the layers that are kept of a teacher."""

    def __init__(self, config):
        super().__init__(config)
        self.temperature = 2.0
        self.hint = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.bert.encoder.layer = nn.ModuleList(self.bert.encoder.layer[i] for i in (0, 2))

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, labels=None):
        outputs = self.bert(input_ids, attention_mask, output_hidden_states=True)
        logits = self.classifier(self.dropout(outputs.pooler_output))
        teacher = torch.linspace(-1, 1, logits.numel()).view_as(logits)
        soft = F.kl_div(
            F.log_softmax(logits / self.temperature, -1),
            F.softmax(teacher / self.temperature, -1),
            reduction="batchmean",
        )
        hint = F.mse_loss(self.hint(outputs.hidden_states[1]), torch.zeros(outputs[0].shape))
        return F.cross_entropy(logits, labels[:, 0]) + soft * self.temperature**2 + hint, logits


class SoftPromptWords(nn.Module):
    def __init__(self, words, n):
        super().__init__()
        self.words, self.n = words, n
        self.learned_embedding = nn.Parameter(words.weight[:n].detach().clone())

    def forward(self, tokens):
        learned = self.learned_embedding.repeat(tokens.size(0), 1, 1)
        return torch.cat([learned, self.words(tokens[:, self.n :])], 1)


class SoftPrompt(BertForMaskedLM):
    """Learned words in place of the first ones (Lester et al. 2021)."""

    def __init__(self, config):
        super().__init__(config)
        self.set_input_embeddings(SoftPromptWords(self.get_input_embeddings(), 2))

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, labels=None):
        outputs = super().forward(input_ids, attention_mask, labels=labels)
        return outputs.loss, outputs.logits


class PrefixEncoder(nn.Module):
    def __init__(self, config, length):
        super().__init__()
        self.embedding = nn.Embedding(length, config.hidden_size)
        self.trans = nn.Sequential(
            nn.Linear(config.hidden_size, 9), nn.Tanh(), nn.Linear(9, config.hidden_size)
        )

    def forward(self, prefix):
        return self.trans(self.embedding(prefix))


class PromptTuning(BertPreTrainedModel):
    """Learned vectors before the words, by inputs_embeds (P-tuning)."""

    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config)
        self.embeddings = self.bert.embeddings
        self.prefix_encoder = PrefixEncoder(config, 3)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        for param in self.bert.parameters():
            param.requires_grad = False
        self.post_init()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        words = self.embeddings.word_embeddings(input_ids)
        prompts = self.prefix_encoder(torch.arange(3).expand(len(words), -1))
        mask = torch.cat([torch.ones(len(words), 3, dtype=torch.long), attention_mask], 1)
        outputs = self.bert(inputs_embeds=torch.cat([prompts, words], 1), attention_mask=mask)
        logits = self.classifier(outputs.last_hidden_state[:, 3:].mean(1))
        return F.cross_entropy(logits, labels[:, 0]), logits


class Adapter(nn.Module):
    def __init__(self, size, bottleneck=4):
        super().__init__()
        self.down, self.up = nn.Linear(size, bottleneck), nn.Linear(bottleneck, size)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return x + self.up(F.gelu(self.down(x)))


class AdaptedOutput(nn.Module):
    def __init__(self, output, size):
        super().__init__()
        self.output, self.adapter = output, Adapter(size)

    def forward(self, hidden_states, input_tensor):
        hidden_states = self.output.dropout(self.output.dense(hidden_states))
        return self.output.LayerNorm(self.adapter(hidden_states) + input_tensor)


class Adapters(BertForSequenceClassification):
    """A bottleneck in both blocks of every layer (Houlsby et al. 2019)."""

    def __init__(self, config):
        super().__init__(config)
        for layer in self.bert.encoder.layer:
            layer.attention.output = AdaptedOutput(layer.attention.output, config.hidden_size)
            layer.output = AdaptedOutput(layer.output, config.hidden_size)

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, labels=None):
        outputs = super().forward(input_ids, attention_mask, labels=labels[:, 0])
        return outputs[0], outputs[1]


class LoRALinear(nn.Module):
    def __init__(self, linear, r=2):
        super().__init__()
        self.linear = linear
        self.linear.requires_grad_(False)
        self.lora_a = nn.Parameter(torch.randn(r, linear.in_features) * 0.1)
        self.lora_b = nn.Parameter(torch.zeros(linear.out_features, r))

    def forward(self, x):
        return self.linear(x) + x @ self.lora_a.T @ self.lora_b.T


class LoRA(BertForSequenceClassification):
    def __init__(self, config):
        super().__init__(config)
        for layer in self.bert.encoder.layer:
            attention = layer.attention.self
            attention.query = LoRALinear(attention.query)
            attention.value = LoRALinear(attention.value)

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, labels=None):
        outputs = super().forward(input_ids, attention_mask, labels=labels[:, 0])
        return outputs.loss, outputs.logits


class MixLinear(nn.Linear):
    """Weights that are the pre-trained ones with some probability (Lee et al. 2020)."""

    def __init__(self, in_features, out_features, target, p=0.5):
        super().__init__(in_features, out_features)
        self.register_buffer("target", target.clone())
        self.p = p

    def forward(self, input):
        weight = self.weight
        if self.training:
            mask = torch.bernoulli(torch.full_like(weight, self.p))
            weight = mask * self.target + (1 - mask) * weight
        return F.linear(input, weight, self.bias)


class Mixout(BertForSequenceClassification):
    def __init__(self, config):
        super().__init__(config)
        for module in list(self.bert.modules()):
            for name, child in list(module.named_children()):
                if name == "dropout" and isinstance(child, nn.Dropout):
                    child.p = 0.0
                if type(child) is nn.Linear:
                    mixed = MixLinear(child.in_features, child.out_features, child.weight.data)
                    mixed.load_state_dict({**child.state_dict(), "target": child.weight.data})
                    setattr(module, name, mixed)

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, labels=None):
        return super().forward(input_ids, attention_mask, labels=labels[:, 0], return_dict=False)


class LongPositions(BertForSequenceClassification):
    """More positions, made of the trained ones repeated (as Longformer's)."""

    def __init__(self, config):
        super().__init__(config)
        table = self.bert.embeddings.position_embeddings
        old = table.weight.data
        table.weight.data = torch.cat([old, old])
        count = 2 * len(old)
        embeddings = self.bert.embeddings
        embeddings.register_buffer("position_ids", torch.arange(count)[None], persistent=False)
        token_types = torch.zeros(1, count, dtype=torch.long)
        embeddings.register_buffer("token_type_ids", token_types, persistent=False)

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, labels=None):
        ids, mask = input_ids.repeat(1, 7), attention_mask.repeat(1, 7)  # 42 of 32 positions
        outputs = super().forward(ids, attention_mask=mask, labels=labels[:, 0])
        return outputs.loss, outputs.logits


class Documents(BertPreTrainedModel):
    """Chunks of a document, and a recurrent layer over them (RoBERT)."""

    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config)
        self.lstm = nn.LSTM(config.hidden_size, 10, batch_first=True)
        self.out = nn.Linear(10, config.num_labels)
        self.init_weights()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        chunks = torch.stack([input_ids, input_ids.flip(0)], 1)  # (batch, chunks, seq)
        masks = torch.stack([attention_mask, attention_mask.flip(0)], 1)
        batch, count, _ = chunks.shape
        pooled = self.bert(chunks.flatten(0, 1), masks.flatten(0, 1))[1].view(batch, count, -1)
        _, (hidden, _) = self.lstm(pooled)
        logits = self.out(hidden[-1])
        return F.cross_entropy(logits, labels[:, 0]), logits


class TransformerOverChunks(BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config)
        layer = nn.TransformerEncoderLayer(config.hidden_size, 4, 20, 0.0, batch_first=True)
        self.document = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.out = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        pooled = [self.bert(ids, attention_mask)[1] for ids in (input_ids, input_ids.flip(0))]
        logits = self.out(self.document(torch.stack(pooled, 1)).mean(1))
        return F.cross_entropy(logits, labels[:, 0]), logits


class ExtraFeatures(BertPreTrainedModel):
    """Numbers beside the text."""

    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config)
        self.bn = nn.BatchNorm1d(2)
        self.classifier = nn.Sequential(
            nn.Linear(config.hidden_size + 2, 16), nn.ReLU(), nn.Linear(16, config.num_labels)
        )
        self.init_weights()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        pooled = self.bert(input_ids, attention_mask, token_type_ids)[1]
        numbers = self.bn(torch.stack([input_ids.sum(1), attention_mask.sum(1)], 1).float())
        logits = self.classifier(torch.cat([pooled, numbers], dim=1))
        return F.cross_entropy(logits, labels[:, 0]), logits


class FeatureEmbeddings(BertPreTrainedModel):
    """Another embedding in the sum, such as that of ages (BEHRT)."""

    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config)
        self.age_embeddings = nn.Embedding(5, config.hidden_size)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.init_weights()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        words = self.bert.get_input_embeddings()(input_ids) + self.age_embeddings(input_ids % 5)
        states = self.bert(
            inputs_embeds=words, attention_mask=attention_mask, token_type_ids=token_type_ids
        )[0]
        logits = self.classifier(states)
        return F.cross_entropy(logits.transpose(1, 2), labels), logits


class Gated(BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config)
        self.gate = nn.Bilinear(config.hidden_size, config.hidden_size, 1)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.init_weights()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        outputs = self.bert(input_ids, attention_mask)
        first, mean = outputs.pooler_output, outputs.last_hidden_state.mean(1)
        share = torch.sigmoid(self.gate(first, mean))
        logits = self.classifier(share * first + (1 - share) * mean)
        return F.cross_entropy(logits, labels[:, 0]), logits


class Ordinal(BertPreTrainedModel):
    """Ranks with one slope and several thresholds (CORAL)."""

    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config)
        self.coral = nn.Linear(config.hidden_size, 1, bias=False)
        self.thresholds = nn.Parameter(torch.arange(config.num_labels - 1.0))
        self.init_weights()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        logits = self.coral(self.bert(input_ids, attention_mask)[1]) + self.thresholds
        levels = (labels[:, :1] > torch.arange(logits.shape[1])).float()
        return F.binary_cross_entropy_with_logits(logits, levels), logits


class LabelAttention(BertPreTrainedModel):
    """A query vector for each label."""

    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.label_embeddings = nn.Embedding(config.num_labels, config.hidden_size)
        self.attention = nn.MultiheadAttention(config.hidden_size, 2, batch_first=True)
        self.scores = nn.Linear(config.hidden_size, 1)
        self.init_weights()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        states = self.bert(input_ids, attention_mask)[0]
        queries = self.label_embeddings.weight.expand(len(states), -1, -1)
        attended, _ = self.attention(queries, states, states, key_padding_mask=attention_mask == 0)
        logits = self.scores(attended).squeeze(-1)
        return F.cross_entropy(logits, labels[:, 0]), logits


class JointMaskedLM(BertPreTrainedModel):
    """Further pre-training and a classifier at once."""

    def __init__(self, config):
        super().__init__(config)
        self.mlm = BertForMaskedLM(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        outputs = self.mlm(input_ids, attention_mask, labels=input_ids, output_hidden_states=True)
        logits = self.classifier(outputs.hidden_states[-1][:, 0])
        return outputs.loss + F.cross_entropy(logits, labels[:, 0]), logits


class Biaffine(BertPreTrainedModel):
    """Heads of words (Dozat and Manning 2017)."""

    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.dependent = nn.Sequential(nn.Linear(config.hidden_size, 12), nn.LeakyReLU())
        self.head = nn.Sequential(nn.Linear(config.hidden_size, 12), nn.LeakyReLU())
        self.weight = nn.Parameter(torch.zeros(13, 12))
        nn.init.xavier_uniform_(self.weight)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        states = self.bert(input_ids, attention_mask)[0]
        dependents, heads = self.dependent(states), self.head(states)
        dependents = torch.cat([dependents, torch.ones_like(dependents[..., :1])], -1)
        arcs = torch.einsum("bxi,ij,byj->bxy", dependents, self.weight, heads)
        arcs = arcs.masked_fill(attention_mask[:, None] == 0, -1e4)
        return F.cross_entropy(arcs.transpose(1, 2), labels), arcs


class ColBERT(BertPreTrainedModel):
    """Sums of the best matches of words (Khattab and Zaharia 2020)."""

    def __init__(self, config, dim=8):
        super().__init__(config)
        self.dim = dim
        self.bert = BertModel(config)
        self.linear = nn.Linear(config.hidden_size, dim, bias=False)
        self.init_weights()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        q = F.normalize(self.linear(self.bert(input_ids, attention_mask)[0]), p=2, dim=2)
        d = F.normalize(self.linear(self.bert(input_ids.flip(0))[0]), p=2, dim=2)
        scores = torch.einsum("qie,dje->qdij", q, d).max(-1).values.sum(-1)
        return F.cross_entropy(scores, torch.arange(len(scores))), scores


class MarginRanker(BertForSequenceClassification):
    def __init__(self, config):
        config.num_labels = 1
        super().__init__(config)

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, labels=None):
        better = super().forward(input_ids, attention_mask, token_type_ids).logits
        worse = super().forward(input_ids.flip(0)).logits
        return F.margin_ranking_loss(better, worse, torch.ones_like(better), 1.0), better


class TopReinitialized(BertForSequenceClassification):
    """The last layers start anew (Zhang et al. 2020)."""

    def __init__(self, config):
        super().__init__(config)
        for layer in self.bert.encoder.layer[-1:]:
            for module in layer.modules():
                if isinstance(module, nn.Linear):
                    module.weight.data.normal_(mean=0.0, std=self.config.initializer_range)

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, labels=None):
        return super().forward(input_ids, attention_mask, labels=labels[:, 0]).to_tuple()


class FirstTokenPooler(nn.Module):
    def forward(self, hidden_states):
        return hidden_states[:, 0] + hidden_states[:, -1]


class OwnPooler(BertForSequenceClassification):
    def __init__(self, config):
        super().__init__(config)
        self.bert.pooler = FirstTokenPooler()

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, labels=None):
        outputs = super().forward(input_ids, attention_mask, labels=labels[:, 0])
        return outputs.loss, outputs.logits


class HeadsConfig(BertConfig):
    def __init__(self, head_layers=1, head_dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.head_layers = head_layers
        self.head_dropout = head_dropout


class OwnConfig(BertPreTrainedModel):
    config_class = HeadsConfig

    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config)
        self.layers = nn.ModuleList(
            nn.Linear(config.hidden_size, config.hidden_size) for _ in range(config.head_layers)
        )
        self.dropout = nn.Dropout(config.head_dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        x = self.bert(input_ids, attention_mask)[1]
        for layer in self.layers:
            x = torch.relu(layer(self.dropout(x)))
        logits = self.classifier(x)
        return F.cross_entropy(logits, labels[:, 0]), logits


class MomentumTeacher(BertPreTrainedModel):
    """A slowly moving copy of the encoder (MoCo)."""

    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config)
        self.key = copy.deepcopy(self.bert)
        for parameter in self.key.parameters():
            parameter.requires_grad = False
        self.register_buffer(
            "queue", F.normalize(torch.linspace(-1, 1, 4 * config.hidden_size).view(4, -1), dim=1)
        )
        self.post_init()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        query = F.normalize(self.bert(input_ids, attention_mask)[1], dim=1)
        with torch.no_grad():
            key = F.normalize(self.key(input_ids, attention_mask)[1], dim=1)
        logits = torch.cat([(query * key).sum(1, keepdim=True), query @ self.queue.T], 1) / 0.07
        return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long)), logits


class LayerwiseRates(BertForSequenceClassification):
    """Lower learning rates for lower layers."""

    def parameter_groups(self, rate=1e-2, decay=0.5):
        layers = [self.bert.embeddings, *self.bert.encoder.layer]
        groups = [
            {"params": layer.parameters(), "lr": rate * decay ** (len(layers) - i)}
            for i, layer in enumerate(layers)
        ]
        head = [*self.bert.pooler.parameters(), *self.classifier.parameters()]
        return [*groups, {"params": head, "lr": rate}]

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, labels=None):
        return super().forward(
            input_ids=input_ids, attention_mask=attention_mask, labels=labels[:, 0]
        )[:2]


CLASSES: list[Any] = [
    value
    for value in list(globals().values())
    if isinstance(value, type)
    and issubclass(value, nn.Module)
    and value.__module__ == __name__
    and "labels" in value.forward.__code__.co_varnames
]
Batch = dict[str, Tensor]
