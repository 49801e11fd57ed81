"""What schemathesis must not send."""

import schemathesis


@schemathesis.hook
def filter_body(context, body):
    """A form cannot say that a field is an empty list: what is sent lacks the field, and is valid."""
    is_form = any(each.media_type == "multipart/form-data" for each in context.operation.body)
    return not is_form or not isinstance(body, dict) or not any(value in ([], {}) for value in body.values())
