"""Arguments that many tools take, with the words that clients see about them."""

from typing import Annotated

from msgspec import Meta

CampaignId = Annotated[str | None, Meta(description="Which campaign; that of the context if left out.")]
SessionId = Annotated[str | None, Meta(description="Which session; that of the context if left out.")]
ContextId = Annotated[
    str | None, Meta(description="The context_id that set_context gave, for clients that were given one.")
]
PageSize = Annotated[int, Meta(description="How many to give at most, up to 500; 0 for the usual number.")]
PageToken = Annotated[str, Meta(description="The next_page_token of the page before.")]
