"""The `format` environment: judges layout alone, such as tags, boxes, JSON against a schema and code fences."""
