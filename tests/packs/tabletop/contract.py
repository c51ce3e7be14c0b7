"""Tools and example results of contract 004."""

CONTRACT_TOOLS = {
    "set_context": ["campaign_id", "session_id", "participant_id"],
    "campaign_create": ["name", "gm_mode", "theme_prompt"],
    "participant_create": ["campaign_id", "display_name", "role", "controller"],
    "actor_create": ["campaign_id", "name", "kind", "notes"],
    "actor_control_set": ["campaign_id", "actor_id", "controller"],
    "session_start": ["campaign_id", "name"],
    "duality_rules_version": [],
    "duality_action_roll": ["modifier", "difficulty"],
    "duality_outcome": ["hope", "fear", "modifier", "difficulty"],
    "duality_explain": ["hope", "fear", "modifier", "difficulty", "request_id"],
    "duality_probability": ["modifier", "difficulty"],
    "roll_dice": ["dice"],
}
OUTCOME = {
    "hope": 8,
    "fear": 5,
    "modifier": 2,
    "difficulty": 15,
    "total": 15,
    "is_crit": False,
    "meets_difficulty": True,
    "outcome": "SUCCESS_WITH_HOPE",
}
RULES = {
    "system": "Daggerheart",
    "module": "Duality",
    "rules_version": "1.0.0",
    "dice_model": "DUALITY_D12_V1",
    "total_formula": "hope + fear + modifier",
    "crit_rule": "HOPE_EQUALS_FEAR_IS_CRITICAL",
    "difficulty_rule": "TOTAL_MEETS_OR_EXCEEDS_DIFFICULTY",
    "outcomes": [
        "ROLL_WITH_HOPE",
        "ROLL_WITH_FEAR",
        "SUCCESS_WITH_HOPE",
        "SUCCESS_WITH_FEAR",
        "FAILURE_WITH_HOPE",
        "FAILURE_WITH_FEAR",
        "CRITICAL_SUCCESS",
    ],
}
EXPLANATION = OUTCOME | {
    "rules_version": "1.0.0",
    "intermediates": {
        "base_total": 13,
        "total": 15,
        "is_crit": False,
        "meets_difficulty": True,
        "hope_gt_fear": True,
        "fear_gt_hope": False,
    },
    "steps": [
        {
            "code": "SUM_DICE",
            "message": "Sum hope and fear dice",
            "data": {"hope": 8, "fear": 5, "base_total": 13},
        },
        {
            "code": "APPLY_MODIFIER",
            "message": "Apply modifier to base total",
            "data": {"base_total": 13, "modifier": 2, "total": 15},
        },
        {
            "code": "CHECK_CRIT",
            "message": "Check for critical outcome",
            "data": {"hope": 8, "fear": 5, "is_crit": False},
        },
        {
            "code": "CHECK_DIFFICULTY",
            "message": "Compare total against difficulty",
            "data": {"total": 15, "difficulty": 15, "meets_difficulty": True},
        },
        {
            "code": "SELECT_OUTCOME",
            "message": "Select final outcome based on roll",
            # The contract's coarse outcome, and our addition of the full one.
            "data": {"outcome": "SUCCESS", "outcome_full": "SUCCESS_WITH_HOPE"},
        },
    ],
}
ODDS = {
    "total_outcomes": 144,
    "crit_count": 12,
    "success_count": 84,
    "failure_count": 60,
    "outcome_counts": [
        {"outcome": "CRITICAL_SUCCESS", "count": 12},
        {"outcome": "SUCCESS_WITH_HOPE", "count": 36},
        {"outcome": "SUCCESS_WITH_FEAR", "count": 36},
        {"outcome": "FAILURE_WITH_HOPE", "count": 30},
        {"outcome": "FAILURE_WITH_FEAR", "count": 30},
    ],
}
