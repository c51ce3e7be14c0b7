"""The activity pack: what the user is doing now, from ActivityWatch and from the screen.

json_client, activitywatch_client, sidecar_client   read-only clients of both, with timeouts and size limits
privacy, secret_patterns, title_matching            which data is hidden: pure
filtered_sources                                    applies the rules to all data of the clients; the only access to it
contract_results                                    the three calls of the contract
now, summary, timeline, query_evaluator             reports, with `transforms`, `categories` and `periods`
sidecar/                                            a separate process that reads the screen
"""
