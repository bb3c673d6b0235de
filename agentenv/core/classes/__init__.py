"""The Kubernetes objects of a sandbox class, as plain documents that pure functions return.

`plan` has the inputs of a class and `objects` all its objects; the other modules return one kind of object each.
Components register the documents, policies check them, estimates count them, and the workspace service claims from
their pools.
"""
