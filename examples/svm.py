"""Train a support vector machine on scikit-learn's digits, with one of several values of C.

Each replica of an array takes the value with its own index.
"""

from __future__ import annotations

import os
import sys

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

values = [float(word) for word in sys.argv[1:]]
if not values:
    sys.exit("usage: svm.py C [C ...]")
c = values[int(os.environ.get("WHERRY_REPLICA_ID", "0"))]

images, digits = load_digits(return_X_y=True)
print(f"training on {len(images)} images of {images.shape[1]} pixels with C={c:g}")
train_x, test_x, train_y, test_y = train_test_split(images, digits, test_size=0.5, random_state=0)
model = SVC(C=c, gamma=0.001).fit(train_x, train_y)
print(f"C={c:g} accuracy {model.score(test_x, test_y):.4f}")
