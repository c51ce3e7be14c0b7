import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GmMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GM_MODE_UNSPECIFIED: _ClassVar[GmMode]
    HUMAN: _ClassVar[GmMode]
    AI: _ClassVar[GmMode]
    HYBRID: _ClassVar[GmMode]

class ParticipantRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[ParticipantRole]
    GM: _ClassVar[ParticipantRole]
    PLAYER: _ClassVar[ParticipantRole]

class Controller(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONTROLLER_UNSPECIFIED: _ClassVar[Controller]
    CONTROLLER_HUMAN: _ClassVar[Controller]
    CONTROLLER_AI: _ClassVar[Controller]

class ActorKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACTOR_KIND_UNSPECIFIED: _ClassVar[ActorKind]
    PC: _ClassVar[ActorKind]
    NPC: _ClassVar[ActorKind]
GM_MODE_UNSPECIFIED: GmMode
HUMAN: GmMode
AI: GmMode
HYBRID: GmMode
ROLE_UNSPECIFIED: ParticipantRole
GM: ParticipantRole
PLAYER: ParticipantRole
CONTROLLER_UNSPECIFIED: Controller
CONTROLLER_HUMAN: Controller
CONTROLLER_AI: Controller
ACTOR_KIND_UNSPECIFIED: ActorKind
PC: ActorKind
NPC: ActorKind

class Campaign(_message.Message):
    __slots__ = ("id", "name", "gm_mode", "participant_count", "actor_count", "theme_prompt", "created_at", "updated_at")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    GM_MODE_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANT_COUNT_FIELD_NUMBER: _ClassVar[int]
    ACTOR_COUNT_FIELD_NUMBER: _ClassVar[int]
    THEME_PROMPT_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    gm_mode: GmMode
    participant_count: int
    actor_count: int
    theme_prompt: str
    created_at: _timestamp_pb2.Timestamp
    updated_at: _timestamp_pb2.Timestamp
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., gm_mode: _Optional[_Union[GmMode, str]] = ..., participant_count: _Optional[int] = ..., actor_count: _Optional[int] = ..., theme_prompt: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., updated_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Participant(_message.Message):
    __slots__ = ("id", "campaign_id", "display_name", "role", "controller", "created_at", "updated_at")
    ID_FIELD_NUMBER: _ClassVar[int]
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    id: str
    campaign_id: str
    display_name: str
    role: ParticipantRole
    controller: Controller
    created_at: _timestamp_pb2.Timestamp
    updated_at: _timestamp_pb2.Timestamp
    def __init__(self, id: _Optional[str] = ..., campaign_id: _Optional[str] = ..., display_name: _Optional[str] = ..., role: _Optional[_Union[ParticipantRole, str]] = ..., controller: _Optional[_Union[Controller, str]] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., updated_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Actor(_message.Message):
    __slots__ = ("id", "campaign_id", "name", "kind", "notes", "created_at", "updated_at")
    ID_FIELD_NUMBER: _ClassVar[int]
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    id: str
    campaign_id: str
    name: str
    kind: ActorKind
    notes: str
    created_at: _timestamp_pb2.Timestamp
    updated_at: _timestamp_pb2.Timestamp
    def __init__(self, id: _Optional[str] = ..., campaign_id: _Optional[str] = ..., name: _Optional[str] = ..., kind: _Optional[_Union[ActorKind, str]] = ..., notes: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., updated_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GmController(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ParticipantController(_message.Message):
    __slots__ = ("participant_id",)
    PARTICIPANT_ID_FIELD_NUMBER: _ClassVar[int]
    participant_id: str
    def __init__(self, participant_id: _Optional[str] = ...) -> None: ...

class ActorController(_message.Message):
    __slots__ = ("gm", "participant")
    GM_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANT_FIELD_NUMBER: _ClassVar[int]
    gm: GmController
    participant: ParticipantController
    def __init__(self, gm: _Optional[_Union[GmController, _Mapping]] = ..., participant: _Optional[_Union[ParticipantController, _Mapping]] = ...) -> None: ...

class CreateCampaignRequest(_message.Message):
    __slots__ = ("name", "gm_mode", "theme_prompt")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GM_MODE_FIELD_NUMBER: _ClassVar[int]
    THEME_PROMPT_FIELD_NUMBER: _ClassVar[int]
    name: str
    gm_mode: GmMode
    theme_prompt: str
    def __init__(self, name: _Optional[str] = ..., gm_mode: _Optional[_Union[GmMode, str]] = ..., theme_prompt: _Optional[str] = ...) -> None: ...

class CreateCampaignResponse(_message.Message):
    __slots__ = ("campaign", "warnings")
    CAMPAIGN_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    campaign: Campaign
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, campaign: _Optional[_Union[Campaign, _Mapping]] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class ListCampaignsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListCampaignsResponse(_message.Message):
    __slots__ = ("campaigns", "next_page_token")
    CAMPAIGNS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    campaigns: _containers.RepeatedCompositeFieldContainer[Campaign]
    next_page_token: str
    def __init__(self, campaigns: _Optional[_Iterable[_Union[Campaign, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetCampaignRequest(_message.Message):
    __slots__ = ("campaign_id",)
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    campaign_id: str
    def __init__(self, campaign_id: _Optional[str] = ...) -> None: ...

class GetCampaignResponse(_message.Message):
    __slots__ = ("campaign",)
    CAMPAIGN_FIELD_NUMBER: _ClassVar[int]
    campaign: Campaign
    def __init__(self, campaign: _Optional[_Union[Campaign, _Mapping]] = ...) -> None: ...

class CreateParticipantRequest(_message.Message):
    __slots__ = ("campaign_id", "display_name", "role", "controller")
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    campaign_id: str
    display_name: str
    role: ParticipantRole
    controller: Controller
    def __init__(self, campaign_id: _Optional[str] = ..., display_name: _Optional[str] = ..., role: _Optional[_Union[ParticipantRole, str]] = ..., controller: _Optional[_Union[Controller, str]] = ...) -> None: ...

class CreateParticipantResponse(_message.Message):
    __slots__ = ("participant",)
    PARTICIPANT_FIELD_NUMBER: _ClassVar[int]
    participant: Participant
    def __init__(self, participant: _Optional[_Union[Participant, _Mapping]] = ...) -> None: ...

class ListParticipantsRequest(_message.Message):
    __slots__ = ("campaign_id", "page_size", "page_token")
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    campaign_id: str
    page_size: int
    page_token: str
    def __init__(self, campaign_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListParticipantsResponse(_message.Message):
    __slots__ = ("participants", "next_page_token")
    PARTICIPANTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    participants: _containers.RepeatedCompositeFieldContainer[Participant]
    next_page_token: str
    def __init__(self, participants: _Optional[_Iterable[_Union[Participant, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetParticipantRequest(_message.Message):
    __slots__ = ("campaign_id", "participant_id")
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANT_ID_FIELD_NUMBER: _ClassVar[int]
    campaign_id: str
    participant_id: str
    def __init__(self, campaign_id: _Optional[str] = ..., participant_id: _Optional[str] = ...) -> None: ...

class GetParticipantResponse(_message.Message):
    __slots__ = ("participant",)
    PARTICIPANT_FIELD_NUMBER: _ClassVar[int]
    participant: Participant
    def __init__(self, participant: _Optional[_Union[Participant, _Mapping]] = ...) -> None: ...

class UpdateParticipantRequest(_message.Message):
    __slots__ = ("campaign_id", "participant_id", "display_name", "role", "controller")
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANT_ID_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    campaign_id: str
    participant_id: str
    display_name: str
    role: ParticipantRole
    controller: Controller
    def __init__(self, campaign_id: _Optional[str] = ..., participant_id: _Optional[str] = ..., display_name: _Optional[str] = ..., role: _Optional[_Union[ParticipantRole, str]] = ..., controller: _Optional[_Union[Controller, str]] = ...) -> None: ...

class UpdateParticipantResponse(_message.Message):
    __slots__ = ("participant",)
    PARTICIPANT_FIELD_NUMBER: _ClassVar[int]
    participant: Participant
    def __init__(self, participant: _Optional[_Union[Participant, _Mapping]] = ...) -> None: ...

class DeleteParticipantRequest(_message.Message):
    __slots__ = ("campaign_id", "participant_id")
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANT_ID_FIELD_NUMBER: _ClassVar[int]
    campaign_id: str
    participant_id: str
    def __init__(self, campaign_id: _Optional[str] = ..., participant_id: _Optional[str] = ...) -> None: ...

class DeleteParticipantResponse(_message.Message):
    __slots__ = ("participant",)
    PARTICIPANT_FIELD_NUMBER: _ClassVar[int]
    participant: Participant
    def __init__(self, participant: _Optional[_Union[Participant, _Mapping]] = ...) -> None: ...

class CreateActorRequest(_message.Message):
    __slots__ = ("campaign_id", "name", "kind", "notes")
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    campaign_id: str
    name: str
    kind: ActorKind
    notes: str
    def __init__(self, campaign_id: _Optional[str] = ..., name: _Optional[str] = ..., kind: _Optional[_Union[ActorKind, str]] = ..., notes: _Optional[str] = ...) -> None: ...

class CreateActorResponse(_message.Message):
    __slots__ = ("actor",)
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    actor: Actor
    def __init__(self, actor: _Optional[_Union[Actor, _Mapping]] = ...) -> None: ...

class ListActorsRequest(_message.Message):
    __slots__ = ("campaign_id", "page_size", "page_token")
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    campaign_id: str
    page_size: int
    page_token: str
    def __init__(self, campaign_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListActorsResponse(_message.Message):
    __slots__ = ("actors", "next_page_token")
    ACTORS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    actors: _containers.RepeatedCompositeFieldContainer[Actor]
    next_page_token: str
    def __init__(self, actors: _Optional[_Iterable[_Union[Actor, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetActorRequest(_message.Message):
    __slots__ = ("campaign_id", "actor_id")
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    ACTOR_ID_FIELD_NUMBER: _ClassVar[int]
    campaign_id: str
    actor_id: str
    def __init__(self, campaign_id: _Optional[str] = ..., actor_id: _Optional[str] = ...) -> None: ...

class GetActorResponse(_message.Message):
    __slots__ = ("actor",)
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    actor: Actor
    def __init__(self, actor: _Optional[_Union[Actor, _Mapping]] = ...) -> None: ...

class UpdateActorRequest(_message.Message):
    __slots__ = ("campaign_id", "actor_id", "name", "kind", "notes")
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    ACTOR_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    campaign_id: str
    actor_id: str
    name: str
    kind: ActorKind
    notes: str
    def __init__(self, campaign_id: _Optional[str] = ..., actor_id: _Optional[str] = ..., name: _Optional[str] = ..., kind: _Optional[_Union[ActorKind, str]] = ..., notes: _Optional[str] = ...) -> None: ...

class UpdateActorResponse(_message.Message):
    __slots__ = ("actor",)
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    actor: Actor
    def __init__(self, actor: _Optional[_Union[Actor, _Mapping]] = ...) -> None: ...

class DeleteActorRequest(_message.Message):
    __slots__ = ("campaign_id", "actor_id")
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    ACTOR_ID_FIELD_NUMBER: _ClassVar[int]
    campaign_id: str
    actor_id: str
    def __init__(self, campaign_id: _Optional[str] = ..., actor_id: _Optional[str] = ...) -> None: ...

class DeleteActorResponse(_message.Message):
    __slots__ = ("actor",)
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    actor: Actor
    def __init__(self, actor: _Optional[_Union[Actor, _Mapping]] = ...) -> None: ...

class SetDefaultControlRequest(_message.Message):
    __slots__ = ("campaign_id", "actor_id", "controller")
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    ACTOR_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    campaign_id: str
    actor_id: str
    controller: ActorController
    def __init__(self, campaign_id: _Optional[str] = ..., actor_id: _Optional[str] = ..., controller: _Optional[_Union[ActorController, _Mapping]] = ...) -> None: ...

class SetDefaultControlResponse(_message.Message):
    __slots__ = ("campaign_id", "actor_id", "controller")
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    ACTOR_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    campaign_id: str
    actor_id: str
    controller: ActorController
    def __init__(self, campaign_id: _Optional[str] = ..., actor_id: _Optional[str] = ..., controller: _Optional[_Union[ActorController, _Mapping]] = ...) -> None: ...

class GetDefaultControlRequest(_message.Message):
    __slots__ = ("campaign_id", "actor_id")
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    ACTOR_ID_FIELD_NUMBER: _ClassVar[int]
    campaign_id: str
    actor_id: str
    def __init__(self, campaign_id: _Optional[str] = ..., actor_id: _Optional[str] = ...) -> None: ...

class GetDefaultControlResponse(_message.Message):
    __slots__ = ("campaign_id", "actor_id", "controller")
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    ACTOR_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    campaign_id: str
    actor_id: str
    controller: ActorController
    def __init__(self, campaign_id: _Optional[str] = ..., actor_id: _Optional[str] = ..., controller: _Optional[_Union[ActorController, _Mapping]] = ...) -> None: ...

class ExportCampaignRequest(_message.Message):
    __slots__ = ("campaign_id", "without_events")
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_EVENTS_FIELD_NUMBER: _ClassVar[int]
    campaign_id: str
    without_events: bool
    def __init__(self, campaign_id: _Optional[str] = ..., without_events: _Optional[bool] = ...) -> None: ...

class ExportCampaignResponse(_message.Message):
    __slots__ = ("document_json",)
    DOCUMENT_JSON_FIELD_NUMBER: _ClassVar[int]
    document_json: bytes
    def __init__(self, document_json: _Optional[bytes] = ...) -> None: ...

class ImportCampaignRequest(_message.Message):
    __slots__ = ("document_json",)
    DOCUMENT_JSON_FIELD_NUMBER: _ClassVar[int]
    document_json: bytes
    def __init__(self, document_json: _Optional[bytes] = ...) -> None: ...

class ImportCampaignResponse(_message.Message):
    __slots__ = ("campaign",)
    CAMPAIGN_FIELD_NUMBER: _ClassVar[int]
    campaign: Campaign
    def __init__(self, campaign: _Optional[_Union[Campaign, _Mapping]] = ...) -> None: ...
