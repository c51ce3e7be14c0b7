from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    ROLL_WITH_HOPE: _ClassVar[Outcome]
    ROLL_WITH_FEAR: _ClassVar[Outcome]
    SUCCESS_WITH_HOPE: _ClassVar[Outcome]
    SUCCESS_WITH_FEAR: _ClassVar[Outcome]
    FAILURE_WITH_HOPE: _ClassVar[Outcome]
    FAILURE_WITH_FEAR: _ClassVar[Outcome]
    CRITICAL_SUCCESS: _ClassVar[Outcome]

class RollMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLL_MODE_UNSPECIFIED: _ClassVar[RollMode]
    LIVE: _ClassVar[RollMode]
    REPLAY: _ClassVar[RollMode]

class SeedSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SEED_SOURCE_UNSPECIFIED: _ClassVar[SeedSource]
    CLIENT: _ClassVar[SeedSource]
    SERVER: _ClassVar[SeedSource]
OUTCOME_UNSPECIFIED: Outcome
ROLL_WITH_HOPE: Outcome
ROLL_WITH_FEAR: Outcome
SUCCESS_WITH_HOPE: Outcome
SUCCESS_WITH_FEAR: Outcome
FAILURE_WITH_HOPE: Outcome
FAILURE_WITH_FEAR: Outcome
CRITICAL_SUCCESS: Outcome
ROLL_MODE_UNSPECIFIED: RollMode
LIVE: RollMode
REPLAY: RollMode
SEED_SOURCE_UNSPECIFIED: SeedSource
CLIENT: SeedSource
SERVER: SeedSource

class RngRequest(_message.Message):
    __slots__ = ("seed", "roll_mode")
    SEED_FIELD_NUMBER: _ClassVar[int]
    ROLL_MODE_FIELD_NUMBER: _ClassVar[int]
    seed: int
    roll_mode: RollMode
    def __init__(self, seed: _Optional[int] = ..., roll_mode: _Optional[_Union[RollMode, str]] = ...) -> None: ...

class RngUsed(_message.Message):
    __slots__ = ("seed_used", "rng_algo", "seed_source", "roll_mode")
    SEED_USED_FIELD_NUMBER: _ClassVar[int]
    RNG_ALGO_FIELD_NUMBER: _ClassVar[int]
    SEED_SOURCE_FIELD_NUMBER: _ClassVar[int]
    ROLL_MODE_FIELD_NUMBER: _ClassVar[int]
    seed_used: int
    rng_algo: str
    seed_source: SeedSource
    roll_mode: RollMode
    def __init__(self, seed_used: _Optional[int] = ..., rng_algo: _Optional[str] = ..., seed_source: _Optional[_Union[SeedSource, str]] = ..., roll_mode: _Optional[_Union[RollMode, str]] = ...) -> None: ...

class Scene(_message.Message):
    __slots__ = ("campaign_id", "session_id", "actor_id")
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    ACTOR_ID_FIELD_NUMBER: _ClassVar[int]
    campaign_id: str
    session_id: str
    actor_id: str
    def __init__(self, campaign_id: _Optional[str] = ..., session_id: _Optional[str] = ..., actor_id: _Optional[str] = ...) -> None: ...

class ActionRollRequest(_message.Message):
    __slots__ = ("modifier", "difficulty", "rng", "scene", "advantage")
    MODIFIER_FIELD_NUMBER: _ClassVar[int]
    DIFFICULTY_FIELD_NUMBER: _ClassVar[int]
    RNG_FIELD_NUMBER: _ClassVar[int]
    SCENE_FIELD_NUMBER: _ClassVar[int]
    ADVANTAGE_FIELD_NUMBER: _ClassVar[int]
    modifier: int
    difficulty: int
    rng: RngRequest
    scene: Scene
    advantage: int
    def __init__(self, modifier: _Optional[int] = ..., difficulty: _Optional[int] = ..., rng: _Optional[_Union[RngRequest, _Mapping]] = ..., scene: _Optional[_Union[Scene, _Mapping]] = ..., advantage: _Optional[int] = ...) -> None: ...

class ActionRollResponse(_message.Message):
    __slots__ = ("hope", "fear", "modifier", "difficulty", "total", "is_crit", "meets_difficulty", "outcome", "rng", "event_seq", "advantage")
    HOPE_FIELD_NUMBER: _ClassVar[int]
    FEAR_FIELD_NUMBER: _ClassVar[int]
    MODIFIER_FIELD_NUMBER: _ClassVar[int]
    DIFFICULTY_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    IS_CRIT_FIELD_NUMBER: _ClassVar[int]
    MEETS_DIFFICULTY_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    RNG_FIELD_NUMBER: _ClassVar[int]
    EVENT_SEQ_FIELD_NUMBER: _ClassVar[int]
    ADVANTAGE_FIELD_NUMBER: _ClassVar[int]
    hope: int
    fear: int
    modifier: int
    difficulty: int
    total: int
    is_crit: bool
    meets_difficulty: bool
    outcome: Outcome
    rng: RngUsed
    event_seq: int
    advantage: int
    def __init__(self, hope: _Optional[int] = ..., fear: _Optional[int] = ..., modifier: _Optional[int] = ..., difficulty: _Optional[int] = ..., total: _Optional[int] = ..., is_crit: _Optional[bool] = ..., meets_difficulty: _Optional[bool] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., rng: _Optional[_Union[RngUsed, _Mapping]] = ..., event_seq: _Optional[int] = ..., advantage: _Optional[int] = ...) -> None: ...

class DualityOutcomeRequest(_message.Message):
    __slots__ = ("hope", "fear", "modifier", "difficulty")
    HOPE_FIELD_NUMBER: _ClassVar[int]
    FEAR_FIELD_NUMBER: _ClassVar[int]
    MODIFIER_FIELD_NUMBER: _ClassVar[int]
    DIFFICULTY_FIELD_NUMBER: _ClassVar[int]
    hope: int
    fear: int
    modifier: int
    difficulty: int
    def __init__(self, hope: _Optional[int] = ..., fear: _Optional[int] = ..., modifier: _Optional[int] = ..., difficulty: _Optional[int] = ...) -> None: ...

class DualityOutcomeResponse(_message.Message):
    __slots__ = ("hope", "fear", "modifier", "difficulty", "total", "is_crit", "meets_difficulty", "outcome")
    HOPE_FIELD_NUMBER: _ClassVar[int]
    FEAR_FIELD_NUMBER: _ClassVar[int]
    MODIFIER_FIELD_NUMBER: _ClassVar[int]
    DIFFICULTY_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    IS_CRIT_FIELD_NUMBER: _ClassVar[int]
    MEETS_DIFFICULTY_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    hope: int
    fear: int
    modifier: int
    difficulty: int
    total: int
    is_crit: bool
    meets_difficulty: bool
    outcome: Outcome
    def __init__(self, hope: _Optional[int] = ..., fear: _Optional[int] = ..., modifier: _Optional[int] = ..., difficulty: _Optional[int] = ..., total: _Optional[int] = ..., is_crit: _Optional[bool] = ..., meets_difficulty: _Optional[bool] = ..., outcome: _Optional[_Union[Outcome, str]] = ...) -> None: ...

class DualityExplainRequest(_message.Message):
    __slots__ = ("hope", "fear", "modifier", "difficulty", "request_id")
    HOPE_FIELD_NUMBER: _ClassVar[int]
    FEAR_FIELD_NUMBER: _ClassVar[int]
    MODIFIER_FIELD_NUMBER: _ClassVar[int]
    DIFFICULTY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    hope: int
    fear: int
    modifier: int
    difficulty: int
    request_id: str
    def __init__(self, hope: _Optional[int] = ..., fear: _Optional[int] = ..., modifier: _Optional[int] = ..., difficulty: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class Intermediates(_message.Message):
    __slots__ = ("base_total", "total", "is_crit", "meets_difficulty", "hope_gt_fear", "fear_gt_hope")
    BASE_TOTAL_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    IS_CRIT_FIELD_NUMBER: _ClassVar[int]
    MEETS_DIFFICULTY_FIELD_NUMBER: _ClassVar[int]
    HOPE_GT_FEAR_FIELD_NUMBER: _ClassVar[int]
    FEAR_GT_HOPE_FIELD_NUMBER: _ClassVar[int]
    base_total: int
    total: int
    is_crit: bool
    meets_difficulty: bool
    hope_gt_fear: bool
    fear_gt_hope: bool
    def __init__(self, base_total: _Optional[int] = ..., total: _Optional[int] = ..., is_crit: _Optional[bool] = ..., meets_difficulty: _Optional[bool] = ..., hope_gt_fear: _Optional[bool] = ..., fear_gt_hope: _Optional[bool] = ...) -> None: ...

class ExplainStep(_message.Message):
    __slots__ = ("code", "message", "data")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    data: _struct_pb2.Struct
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., data: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class DualityExplainResponse(_message.Message):
    __slots__ = ("hope", "fear", "modifier", "difficulty", "total", "is_crit", "meets_difficulty", "outcome", "rules_version", "intermediates", "steps")
    HOPE_FIELD_NUMBER: _ClassVar[int]
    FEAR_FIELD_NUMBER: _ClassVar[int]
    MODIFIER_FIELD_NUMBER: _ClassVar[int]
    DIFFICULTY_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    IS_CRIT_FIELD_NUMBER: _ClassVar[int]
    MEETS_DIFFICULTY_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    RULES_VERSION_FIELD_NUMBER: _ClassVar[int]
    INTERMEDIATES_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    hope: int
    fear: int
    modifier: int
    difficulty: int
    total: int
    is_crit: bool
    meets_difficulty: bool
    outcome: Outcome
    rules_version: str
    intermediates: Intermediates
    steps: _containers.RepeatedCompositeFieldContainer[ExplainStep]
    def __init__(self, hope: _Optional[int] = ..., fear: _Optional[int] = ..., modifier: _Optional[int] = ..., difficulty: _Optional[int] = ..., total: _Optional[int] = ..., is_crit: _Optional[bool] = ..., meets_difficulty: _Optional[bool] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., rules_version: _Optional[str] = ..., intermediates: _Optional[_Union[Intermediates, _Mapping]] = ..., steps: _Optional[_Iterable[_Union[ExplainStep, _Mapping]]] = ...) -> None: ...

class DualityProbabilityRequest(_message.Message):
    __slots__ = ("modifier", "difficulty", "advantage")
    MODIFIER_FIELD_NUMBER: _ClassVar[int]
    DIFFICULTY_FIELD_NUMBER: _ClassVar[int]
    ADVANTAGE_FIELD_NUMBER: _ClassVar[int]
    modifier: int
    difficulty: int
    advantage: int
    def __init__(self, modifier: _Optional[int] = ..., difficulty: _Optional[int] = ..., advantage: _Optional[int] = ...) -> None: ...

class OutcomeCount(_message.Message):
    __slots__ = ("outcome", "count")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    outcome: Outcome
    count: int
    def __init__(self, outcome: _Optional[_Union[Outcome, str]] = ..., count: _Optional[int] = ...) -> None: ...

class DualityProbabilityResponse(_message.Message):
    __slots__ = ("total_outcomes", "crit_count", "success_count", "failure_count", "outcome_counts")
    TOTAL_OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    CRIT_COUNT_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_COUNT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_COUNT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_COUNTS_FIELD_NUMBER: _ClassVar[int]
    total_outcomes: int
    crit_count: int
    success_count: int
    failure_count: int
    outcome_counts: _containers.RepeatedCompositeFieldContainer[OutcomeCount]
    def __init__(self, total_outcomes: _Optional[int] = ..., crit_count: _Optional[int] = ..., success_count: _Optional[int] = ..., failure_count: _Optional[int] = ..., outcome_counts: _Optional[_Iterable[_Union[OutcomeCount, _Mapping]]] = ...) -> None: ...

class RulesVersionRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RulesVersionResponse(_message.Message):
    __slots__ = ("system", "module", "rules_version", "dice_model", "total_formula", "crit_rule", "difficulty_rule", "outcomes")
    SYSTEM_FIELD_NUMBER: _ClassVar[int]
    MODULE_FIELD_NUMBER: _ClassVar[int]
    RULES_VERSION_FIELD_NUMBER: _ClassVar[int]
    DICE_MODEL_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FORMULA_FIELD_NUMBER: _ClassVar[int]
    CRIT_RULE_FIELD_NUMBER: _ClassVar[int]
    DIFFICULTY_RULE_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    system: str
    module: str
    rules_version: str
    dice_model: str
    total_formula: str
    crit_rule: str
    difficulty_rule: str
    outcomes: _containers.RepeatedScalarFieldContainer[Outcome]
    def __init__(self, system: _Optional[str] = ..., module: _Optional[str] = ..., rules_version: _Optional[str] = ..., dice_model: _Optional[str] = ..., total_formula: _Optional[str] = ..., crit_rule: _Optional[str] = ..., difficulty_rule: _Optional[str] = ..., outcomes: _Optional[_Iterable[_Union[Outcome, str]]] = ...) -> None: ...

class DiceSpec(_message.Message):
    __slots__ = ("sides", "count")
    SIDES_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    sides: int
    count: int
    def __init__(self, sides: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class DiceRoll(_message.Message):
    __slots__ = ("sides", "results", "total")
    SIDES_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    sides: int
    results: _containers.RepeatedScalarFieldContainer[int]
    total: int
    def __init__(self, sides: _Optional[int] = ..., results: _Optional[_Iterable[int]] = ..., total: _Optional[int] = ...) -> None: ...

class RollDiceRequest(_message.Message):
    __slots__ = ("dice", "rng", "scene")
    DICE_FIELD_NUMBER: _ClassVar[int]
    RNG_FIELD_NUMBER: _ClassVar[int]
    SCENE_FIELD_NUMBER: _ClassVar[int]
    dice: _containers.RepeatedCompositeFieldContainer[DiceSpec]
    rng: RngRequest
    scene: Scene
    def __init__(self, dice: _Optional[_Iterable[_Union[DiceSpec, _Mapping]]] = ..., rng: _Optional[_Union[RngRequest, _Mapping]] = ..., scene: _Optional[_Union[Scene, _Mapping]] = ...) -> None: ...

class RollDiceResponse(_message.Message):
    __slots__ = ("rolls", "total", "rng", "event_seq")
    ROLLS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    RNG_FIELD_NUMBER: _ClassVar[int]
    EVENT_SEQ_FIELD_NUMBER: _ClassVar[int]
    rolls: _containers.RepeatedCompositeFieldContainer[DiceRoll]
    total: int
    rng: RngUsed
    event_seq: int
    def __init__(self, rolls: _Optional[_Iterable[_Union[DiceRoll, _Mapping]]] = ..., total: _Optional[int] = ..., rng: _Optional[_Union[RngUsed, _Mapping]] = ..., event_seq: _Optional[int] = ...) -> None: ...

class RollNotationRequest(_message.Message):
    __slots__ = ("notation", "rng", "scene")
    NOTATION_FIELD_NUMBER: _ClassVar[int]
    RNG_FIELD_NUMBER: _ClassVar[int]
    SCENE_FIELD_NUMBER: _ClassVar[int]
    notation: str
    rng: RngRequest
    scene: Scene
    def __init__(self, notation: _Optional[str] = ..., rng: _Optional[_Union[RngRequest, _Mapping]] = ..., scene: _Optional[_Union[Scene, _Mapping]] = ...) -> None: ...

class NotationTerm(_message.Message):
    __slots__ = ("text", "results", "kept", "total")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    text: str
    results: _containers.RepeatedScalarFieldContainer[int]
    kept: _containers.RepeatedScalarFieldContainer[int]
    total: int
    def __init__(self, text: _Optional[str] = ..., results: _Optional[_Iterable[int]] = ..., kept: _Optional[_Iterable[int]] = ..., total: _Optional[int] = ...) -> None: ...

class RollNotationResponse(_message.Message):
    __slots__ = ("notation", "terms", "total", "rng", "event_seq")
    NOTATION_FIELD_NUMBER: _ClassVar[int]
    TERMS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    RNG_FIELD_NUMBER: _ClassVar[int]
    EVENT_SEQ_FIELD_NUMBER: _ClassVar[int]
    notation: str
    terms: _containers.RepeatedCompositeFieldContainer[NotationTerm]
    total: int
    rng: RngUsed
    event_seq: int
    def __init__(self, notation: _Optional[str] = ..., terms: _Optional[_Iterable[_Union[NotationTerm, _Mapping]]] = ..., total: _Optional[int] = ..., rng: _Optional[_Union[RngUsed, _Mapping]] = ..., event_seq: _Optional[int] = ...) -> None: ...
